"""manage.py auth_errors: what it shows and does, and what it says of wrong input."""

import io
import json
import uuid
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from dpp_project.audit.models import AuditEntry
from dpp_project.management.base import CommandAnswer, OpsCommand
from ops.auth_errors.models import AuthError, ClusterAlias, DecisionRule
from tests.gear.builders import auth_errors as gear

pytestmark = [pytest.mark.django_db, pytest.mark.contract("AUT-11")]


def command(*arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(printed(*arguments))
    return answer


def printed(*arguments: str) -> str:
    out = io.StringIO()
    call_command("auth_errors", *arguments, "--json", stdout=out)
    return out.getvalue()


def told(*arguments: str) -> str:
    out = io.StringIO()
    call_command("auth_errors", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_aut_11_the_command_lists_and_shows() -> None:
    assert told("list") == "There are no such auth errors.\n"
    assert told("list", "--clusters") == "There are no clusters.\n"
    one, other = gear.analyzed(tenant_id="t_a"), gear.recorded(tenant_id="t_b", name="Other")
    assert [row["auth_error_id"] for row in command("list")["auth_errors"]] == [str(other.pk), str(one.pk)]
    for filters in (["--tenant", "t_a"], ["--cluster", str(one.cluster_id)], ["--status", "ANALYSIS_COMPLETED"]):
        assert [row["auth_error_id"] for row in command("list", *filters)["auth_errors"]] == [str(one.pk)]
    assert [row["auth_error_id"] for row in command("list", "--class", other.exception_class)["auth_errors"]] == [
        str(other.pk)
    ]
    assert [row["cluster_id"] for row in command("list", "--clusters")["clusters"]] == [str(one.cluster_id)]
    assert command("show", str(one.pk))["events"][0]["what"] == "reported"
    assert command("show", str(one.cluster_id))["occurrences"] == 1
    assert str(one.pk) in told("list")
    assert "com.acme.auth.Tokens.verify" in told("list", "--clusters")
    assert one.stacktrace in told("show", str(one.pk))


def test_aut_11_the_command_decides_merges_and_rules() -> None:
    one, other = gear.analyzed(name="One"), gear.analyzed(name="Other")
    by = ("--by", "ada")
    assert command("decide", str(one.pk), "--decision", "IGNORE", *by)["status"] == "IGNORED"
    assert command("merge", str(one.cluster_id), "--into", str(other.cluster_id), *by)["counts_as"] == str(
        other.cluster_id
    )
    assert command("decide", str(other.cluster_id), "--decision", "RESOLVE", "--reason", "1.4", *by)["decided"] == 1
    assert command("unmerge", str(one.cluster_id), *by)["counts_as"] is None
    rule = command("rules", "--add", "bots", "--path", "/login", "--decision", "FAIL", *by)
    assert [row["rule"] for row in command("rules")["rules"]] == [rule["rule"]]
    assert "bots" in told("rules")
    assert command("rules", "--end", str(rule["rule"]), *by)["ended_at"] is not None
    assert told("rules") == "There are no rules.\n"
    assert set(AuditEntry.objects.values_list("actor", "source")) == {("command:ada", "command")}


ID = str(uuid.UUID(int=7))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show"], "subject: give an id"),
        (["show", "x"], "subject: give an id"),
        (["show", ID], "there is no such auth error or cluster"),
        (["list", "--limit", "0"], "--limit: must be 1 to 1000"),
        (["list", "--clusters", "--limit", "101"], "--limit: must be 1 to 100"),
        (["list", "--cluster", "x"], "--cluster: give an id"),
        (["decide", "ERROR", "--decision", "FAIL"], "--by: say who you are"),
        (["decide", "ERROR", "--by", "ada"], "--decision: give one of FAIL"),
        (["decide", "ERROR", "--by", "ada", "--decision", "FAIL", "--reason", "a\nb"], "--reason: must be"),
        (["merge", "ERROR", "--into", ID, "--by", "ada"], "subject: that is an auth error"),
        (["merge", "CLUSTER", "--into", ID, "--by", "ada"], "into: there is no such cluster"),
        (["merge", "CLUSTER", "--by", "ada"], "--into: give an id"),
        (["unmerge", "CLUSTER", "--by", "ada"], "it is not merged"),
        (["rules", "--add", "x", "--by", "ada"], "--decision: give one of FAIL, IGNORE, PROCESS, RESOLVE"),
        (["rules", "--add", "x", "--by", "ada", "--decision", "FAIL"], "--cluster: give a condition"),
        (["rules", "--add", "x", "--by", "ada", "--decision", "FAIL", "--path", "a"], "--path: a path begins with /"),
        (["rules", "--add", "x", "--by", "ada", "--decision", "RETRY", "--path", "/a"], "--decision: a rule decides"),
        (["rules", "--end", "7", "--by", "ada"], "--end: there is no such rule"),
        (["rules", "--end", str(2**70), "--by", "ada"], "--end: there is no such rule"),
        (["rules", "--add", "x", "--end", "7", "--by", "ada"], "--end: add one or end one"),
    ],
    ids=lambda part: " ".join(part)[:40] if isinstance(part, list) else "",
)
def test_aut_11_wrong_input_is_named_and_changes_nothing(arguments: list[str], said: str) -> None:
    error = gear.analyzed()
    stands = {"ERROR": str(error.pk), "CLUSTER": str(error.cluster_id)}
    with pytest.raises(CommandError, match=said.replace("(", r"\(")) as refused:
        told(*(stands.get(one, one) for one in arguments))
    assert refused.value.returncode == 1
    assert AuthError.objects.get() == error
    assert not (ClusterAlias.objects.exists())
    assert not (DecisionRule.objects.exists())
    assert not (AuditEntry.objects.exists())


@pytest.mark.parametrize(
    "arguments",
    [
        ["decide", "ERROR", "--decision", "RESOLVE"],
        ["decide", "CLUSTER", "--decision", "RESOLVE"],
        ["merge", "CLUSTER", "--into", ID],
        ["unmerge", "CLUSTER"],
        ["rules", "--add", "x", "--decision", "FAIL", "--path", "/a"],
    ],
    ids=" ".join,
)
def test_aut_11_a_dry_run_changes_nothing(arguments: list[str]) -> None:
    error = gear.analyzed()
    stands = {"ERROR": str(error.pk), "CLUSTER": str(error.cluster_id)}
    assert "would" in told(*(stands.get(one, one) for one in arguments), "--by", "ada", "--dry-run")
    assert AuthError.objects.get() == error
    assert not (ClusterAlias.objects.exists())
    assert not (DecisionRule.objects.exists())
    assert not (AuditEntry.objects.exists())


def test_aut_11_a_tenants_words_are_neither_commands_of_the_terminal_nor_lines_of_others() -> None:
    """A report is a stranger's text: it could set the clipboard of who reads it, or write the line of another error."""
    hostile = "a.B\n]52;c;Y3VybA==\x07forged\x9b2J\u202egpj"
    one = gear.analyzed(exceptionClass=hostile, stacktrace=f"{hostile}\n\tat a.B.c(B.java:1)")
    texts = [told("list"), told("list", "--clusters"), told("show", str(one.pk)), told("show", str(one.cluster_id))]
    for text in (*texts, printed("show", str(one.pk))):
        assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e"} & set(text)
    assert [text.count("\n") for text in texts[:2]] == [1, 1]
    assert "\tat a.B.c(B.java:1)" in texts[2]
    assert command("show", str(one.pk))["exception_class"] == hostile


class Said(OpsCommand):
    """Prints what a stranger sent, wherever it was kept."""

    text = "a\x1b]52;c;Y3VybA==\x07\x9b2J\u202eb\r\n\tc"

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        del dry_run, options
        return CommandAnswer({"text": self.text}, [self.text])


def test_aut_11_no_command_prints_controls_of_a_terminal() -> None:
    out = io.StringIO()
    call_command(Said(), stdout=out)
    assert out.getvalue() == "a\\u001b]52;c;Y3VybA==\\u0007\\u009b2J\\u202eb\\u000d\n\tc\n"
    out = io.StringIO()
    call_command(Said(), "--json", stdout=out)
    assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e"} & set(out.getvalue())
    assert json.loads(out.getvalue()) == {"text": Said.text}
