"""The commands for operators: what they print, what they change, how they end (DPP-76)."""

import io
import json
import re
from typing import Any

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.db import OperationalError

from tenants.models import ApiKey, Tenant
from tests.gear.builders.tenants import a_key, a_tenant, an_operator_key

pytestmark = [pytest.mark.django_db, pytest.mark.contract("DPP-76")]

COMMANDS = ["create_tenant", "create_api_key", "rotate_api_key", "revoke_api_key", "list_tenants"]


def run(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command(*arguments, stdout=out, stderr=err, no_color=True)
    return out.getvalue(), err.getvalue()


def run_json(*arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run(*arguments, "--json")[0])
    return document


def test_tenants_create_tenant_makes_one() -> None:
    assert run_json("create_tenant", "t_acme", "--name", "Acme", "--poll-rate", "600") == {
        "tenant_id": "t_acme",
        "display_name": "Acme",
        "status": "ACTIVE",
        "poll_rate_per_minute": 600,
        "submit_rate_per_minute": 60,
        "zone": "UTC",
        "dry_run": False,
    }
    assert Tenant.objects.get(pk="t_acme").display_name == "Acme"


def test_tenants_create_api_key_prints_the_key_alone_on_stdout() -> None:
    tenant = a_tenant()
    out, err = run("create_api_key", tenant.tenant_id, "--scopes", "runs:read, runs:write", "--label", "laptop")
    assert re.fullmatch(r"dpp_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}\n", out)
    assert "shown only once" in err
    assert out.strip() not in err
    row = ApiKey.objects.get()
    assert (row.prefix, row.scopes, row.label) == (out[4:12], ["runs:read", "runs:write"], "laptop")


def test_tenants_all_scopes_are_those_the_tenant_may_have() -> None:
    tenant = a_tenant()
    assert run_json("create_api_key", tenant.tenant_id, "--all-scopes")["scopes"] == [
        "budget:read",
        "errors:write",
        "keys:write",
        "runs:read",
        "runs:write",
        "uploads:write",
        "webhooks:write",
        "workspaces:read",
        "workspaces:write",
    ]
    an_operator_key()
    assert run_json("create_api_key", "t_operator", "--all-scopes")["scopes"] == ["operator:read", "operator:write"]


def test_tenants_rotate_and_revoke_api_key() -> None:
    old = a_key()
    document = run_json("rotate_api_key", f"dpp_{old.key.prefix}", "--grace-hours", "1")
    assert document["replaces"] == f"dpp_{old.key.prefix}"
    assert ApiKey.objects.get(pk=old.key.pk).replaced_by_id is not None
    assert run("revoke_api_key", document["key"])[0] == f"{document['prefix']} REVOKED\n"
    assert ApiKey.objects.get(pk=document["key_id"]).status == "REVOKED"


def test_tenants_list_shows_keys_by_prefix_only() -> None:
    issued = a_key()
    out, _ = run("list_tenants", "--keys")
    assert issued.key.tenant_id in out
    assert issued.key.prefix in out
    listed = json.dumps(run_json("list_tenants", "--keys"))
    for text in (out, listed):
        assert issued.plaintext[13:] not in text
        assert issued.key.key_hash not in text


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["create_api_key", "t_\udcff", "--all-scopes"], "tenant_id"),
        (["submits", "stop", "--tenant", "t_\udcff", "--reason", "why"], "tenant"),
        (["create_tenant", "t_fine", "--name", "\udcff"], "name"),
        (["topup", "t_\udcff", "5.0000", "--reference", "r"], "tenant_id"),
        (["money_verify", "--tenant", "t_\udcff"], "tenant"),
    ],
    ids=lambda part: part if isinstance(part, str) else part[0],
)
def test_tenants_bytes_that_are_no_text_are_refused_by_every_command(arguments: list[str], field: str) -> None:
    """A terminal of another character set: Python reads such bytes as lone surrogates, which Postgres cannot take."""
    with pytest.raises(CommandError, match=rf"^{field}: is not UTF-8$") as refused:
        run(*arguments)
    assert refused.value.returncode == 1
    assert not Tenant.objects.exclude(pk="t_operator").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["create_tenant", "t_dry"],
        ["create_api_key", "TENANT", "--all-scopes"],
        ["rotate_api_key", "KEY"],
        ["revoke_api_key", "KEY"],
    ],
)
def test_tenants_dry_run_changes_nothing_and_shows_no_key(arguments: list[str]) -> None:
    issued = a_key()
    names = {"TENANT": issued.key.tenant_id, "KEY": issued.key.prefix}
    arguments = [names.get(argument, argument) for argument in arguments]
    before = (list(Tenant.objects.values()), list(ApiKey.objects.values()))
    out, err = run(*arguments, "--dry-run")
    document = run_json(*arguments, "--dry-run")
    assert (list(Tenant.objects.values()), list(ApiKey.objects.values())) == before
    assert document["dry_run"] is True
    assert document.get("key") is None
    assert not re.search(r"dpp_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}", out)
    assert "dry run" in err


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["create_tenant", "Acme"], "tenant_id"),
        (["create_tenant", "t_a", "--poll-rate", "0"], "poll_rate_per_minute"),
        (["create_tenant", "t_a", "--name", ""], "display_name"),
        (["create_api_key", "t_nobody", "--all-scopes"], "tenant_id"),
        (["create_api_key", "t_nobody", "--scopes", "runs:fly"], "scopes"),
        (["create_api_key", "t_nobody", "--scopes", ","], "scopes"),
        (["create_api_key", "t_nobody", "--all-scopes", "--expires-in-days", "0"], "expires_in_days"),
        (["rotate_api_key", "dpp_00000000"], "key"),
        (["rotate_api_key", "dpp_00000000", "--grace-hours", "721"], "grace_hours"),
        (["revoke_api_key", "dpp_00000000"], "key"),
    ],
)
def test_tenants_refusals_end_in_1_and_name_the_field(arguments: list[str], field: str) -> None:
    out = io.StringIO()
    with pytest.raises(CommandError, match=f"^{field}: ") as error:
        call_command(*arguments, "--json", stdout=out)
    assert error.value.returncode == 1
    assert json.loads(out.getvalue())["error"]["field"] == field
    assert not ApiKey.objects.exists()


def test_tenants_a_service_that_does_not_answer_ends_in_3(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_args: object, **_options: object) -> None:
        raise OperationalError("connection to postgresql://dpp:hunter2@db refused")

    monkeypatch.setattr("tenants.services.create_tenant", down)
    with pytest.raises(CommandError, match="does not answer") as error:
        call_command("create_tenant", "t_a")
    assert error.value.returncode == 3
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("name", COMMANDS)
def test_tenants_every_command_explains_itself(name: str) -> None:
    command = load_command_class(get_commands()[name], name)
    said = command.create_parser("manage.py", name).format_help()
    assert "--json" in said
    assert ("--dry-run" in said) is (name != "list_tenants")
    assert command.help.endswith(".")
