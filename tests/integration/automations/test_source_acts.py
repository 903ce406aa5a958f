"""What people do with sources: by service and by command; refused, audited, and without a secret in any of it."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dpp_project import encryption
from dpp_project.audit.models import AuditEntry
from dpp_project.process_env import ENV
from dpp_project.refusals import Refusal
from ops.automations.models import AutomationMessage, AutomationSource
from ops.automations.notify import telling
from ops.automations.sources import acts, credentials, encrypting, looks, source_marks
from ops.automations.states import MessageKind, SourceKind
from tests.gear.builders import automation_source_acts
from tests.gear.builders.acts import Scene
from tests.gear.builders.automation_world import (
    ACTOR,
    World,
    _hosting,
    a_github,
    a_hook,
    a_jira,
    a_schedule,
    a_slack,
    events,
    look,
    row,
    world,
)
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import an_operator_key
from tests.gear.servers.services import github
from tests.gear.servers.services.hosting import refuses

__all__ = ["_hosting", "world"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-06")]
JIRA = {"base_url": "https://acme.atlassian.net", "email": "bot@acme.example"}


def run(*words: str, said: str = "", **options: Any) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO(said))
        call_command("automations", "source", *words, stdout=out, stderr=err, **options)
    return out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("kind", "settings", "more", "field"),
    [
        ("GITHUB", {}, {}, "token"),
        ("GITHUB", {}, {"token": "github_pat_11AB"}, "token"),
        ("GITHUB", {"base_url": "http://api.github.com"}, {"token": "ghp_x"}, "settings.base_url"),
        ("GITHUB", {"base_url": "https://ghe.example:8443"}, {"token": "ghp_x"}, "settings.base_url"),
        ("GITHUB", {"token_env": "DPP_SECRET_KEY"}, {}, "settings.token_env"),
        ("GITHUB", {"colour": 1}, {"token": "ghp_x"}, "settings.colour"),
        ("JIRA", {"email": "bot@acme.example"}, {"token": "t"}, "settings.base_url"),
        ("JIRA", JIRA | {"email": "no address"}, {"token": "t"}, "settings.email"),
        ("JIRA", JIRA | {"jql": "project = A ORDER  BY created"}, {"token": "t"}, "settings.jql"),
        ("JIRA", JIRA | {"jql": "project = A) OR (project = B"}, {"token": "t"}, "settings.jql"),
        ("JIRA", JIRA | {"jql": 'summary ~ "(" AND (a'}, {"token": "t"}, "settings.jql"),
        ("JIRA", JIRA | {"jql": "project in (A"}, {"token": "t"}, "settings.jql"),
        ("SCHEDULE", {"at": "25:00", "zone": "UTC"}, {}, "settings.at"),
        ("SCHEDULE", {"at": "9:00", "zone": "UTC"}, {}, "settings.at"),
        ("SCHEDULE", {"at": "09:00", "zone": "Middle/Earth"}, {}, "settings.zone"),
        ("HOOK", {"form": "gitlab"}, {}, "settings.form"),
        ("HOOK", {"form": "standard", "url": "https://user@crm.example"}, {}, "settings.url"),
    ],
)
def test_lif_06_a_wrong_setting_names_its_field_and_makes_nothing(
    kind: str, settings: dict[str, Any], more: dict[str, Any], field: str
) -> None:
    answer = acts.create_source(name="x", kind=SourceKind(kind), settings=settings, actor=ACTOR, **more)
    assert isinstance(answer, Refusal), answer
    assert answer.field == field
    assert not AutomationSource.objects.exists()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("name", ["", "Upper", "a b", "-a", "a" * 65, "a/b"])
def test_lif_06_a_name_that_no_address_can_bear_is_refused(name: str) -> None:
    answer = acts.create_source(name=name, kind=SourceKind.HOOK, settings={"form": "github"}, actor=ACTOR)
    assert isinstance(answer, Refusal)
    assert answer.field == "name"


def test_lif_06_a_name_is_taken_once() -> None:
    a_hook("hook")
    answer = acts.create_source(name="hook", kind=SourceKind.HOOK, settings={"form": "github"}, actor=ACTOR)
    assert isinstance(answer, Refusal)
    assert answer.reason == "CONFLICT"


def test_lif_06_secrets_lie_encrypted_and_show_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    source = a_github()
    made = a_hook()
    acts.rotate_source_secret(source=source, token="ghp_another", actor=ACTOR)
    rotated = acts.rotate_source_secret(source=made.source, actor=ACTOR)
    assert not isinstance(rotated, Refusal)
    secrets = [github.TOKEN, "ghp_another", made.secret, rotated.secret]
    shown = [
        *(str(one) for one in AutomationSource.objects.values()),
        *(str(one) for one in AuditEntry.objects.values()),
        *(str(record.msg) for record in caplog.records),
        *(repr(one) for one in (made, rotated, credentials.credentials_of(row(source)))),
        run("list", as_json=True)[0],
        run("show", "github")[0],
    ]
    assert all(secret and secret not in text for secret in secrets for text in shown)
    assert credentials.credentials_of(row(source)).token == "ghp_another"
    acts_done = set(AuditEntry.objects.values_list("act", flat=True))
    assert acts_done == {"automation source made", "automation source's token replaced", "automation source rotated"}


@pytest.mark.contract("DPP-97")
def test_dpp_97_a_token_in_an_address_is_in_no_audit_entry() -> None:
    """The trail is never changed: what it holds it holds for good."""
    source = a_hook(form="standard", url="https://x.example/hook/T0KEN?k=S3CRET").source
    for url in ("https://x.example/hook/T0KEN2?k=S3CRET", "https://y.example/T0KEN", None):
        changed = acts.change_source(source=row(source), settings={"form": "standard", "url": url}, actor=ACTOR)
        assert not isinstance(changed, Refusal)
    a_github(settings={"base_url": "https://ghe.example/api/v3?k=S3CRET"})
    entries = list(AuditEntry.objects.order_by("pk").values_list("before", "after"))
    assert not any(secret in str(entry) for entry in entries for secret in ("T0KEN", "S3CRET", "hook/"))
    assert entries == [
        (None, {"kind": "HOOK", "form": "standard", "url": "https://x.example/"}),
        ({"url": "https://x.example/"}, {"url": "https://x.example/"}),  # something behind the host was changed
        ({"url": "https://x.example/"}, {"url": "https://y.example/"}),
        ({"url": "https://y.example/"}, {"url": None}),
        (None, {"kind": "GITHUB", "base_url": "https://ghe.example/"}),
    ]


def test_lif_06_a_third_secret_waits_for_the_second_to_end() -> None:
    source = a_hook().source
    acts.rotate_source_secret(source=source, actor=ACTOR)
    answer = acts.rotate_source_secret(source=row(source), actor=ACTOR)
    assert isinstance(answer, Refusal)
    assert answer.reason == "CONFLICT"


def test_lif_06_a_new_token_asks_anew_whose_it_is(world: World) -> None:
    source = a_github()
    look(world, source)
    acts.rotate_source_secret(source=row(source), token=github.TOKEN, actor=ACTOR)
    assert "login" not in row(source).state
    look(world, source)
    assert world.github.paths().count("/user") == 2


@pytest.mark.parametrize("act", ["rotate", "change", "pause"])
def test_lif_06_a_look_under_way_does_not_bring_back_what_an_act_changed(world: World, act: str) -> None:
    source = a_github()
    world.github.happens("12")
    (slow,) = source_marks.claim_source_looks(kinds=["GITHUB"])
    asked = looks.ask_source(slow.source, world.outside)
    if act == "rotate":
        acts.rotate_source_secret(source=source, token="ghp_another", actor=ACTOR)
    elif act == "change":
        acts.change_source(source=source, settings={"own_actors": ["hubot"]}, actor=ACTOR)
    else:
        acts.pause_source(source=source, actor=ACTOR)
    looks.keep_look(slow, asked)
    assert row(source).state == {}
    assert len(events(source)) == 1  # which happened, whatever was changed


def test_lif_06_secrets_move_under_the_first_key_and_are_named_where_none_opens_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, lost = a_github(), a_hook("lost").source
    AutomationSource.objects.filter(pk=lost.pk).update(sealed_secrets=b"\x01none" + bytes(40))
    keys = ENV.DPP_ENCRYPTION_KEYS
    monkeypatch.setattr(encryption, "ENV", ENV.model_copy(update={"DPP_ENCRYPTION_KEYS": ["A" * 43 + "=", *keys]}))
    done = encrypting.reencrypt_sources(actor=ACTOR)
    assert not isinstance(done, Refusal)
    assert (done.changed, done.unreadable) == (1, ["lost"])
    monkeypatch.setattr(encryption, "ENV", ENV.model_copy(update={"DPP_ENCRYPTION_KEYS": ["A" * 43 + "="]}))
    assert credentials.credentials_of(row(source)).token == github.TOKEN


def test_lif_06_without_encryption_keys_no_secret_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "ENV", ENV.model_copy(update={"DPP_ENCRYPTION_KEYS": []}))
    answer = acts.create_source(name="x", kind=SourceKind.GITHUB, settings={}, token="ghp_x", actor=ACTOR)
    assert isinstance(answer, Refusal)
    assert answer.reason == "SERVICE_UNAVAILABLE"
    assert a_schedule().sealed_secrets is None  # which needs none


def test_lif_06_a_variable_of_the_environment_stands_for_a_secret(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"token_env": "AUTOMATION_SECRET_GITHUB"}
    source = a_github(settings=settings, token="")
    assert look(world, source).last_error == "CREDENTIALS_MISSING AUTOMATION_SECRET_GITHUB is not set"
    monkeypatch.setenv("AUTOMATION_SECRET_GITHUB", github.TOKEN)
    assert look(world, source).failures == 0


def test_lif_06_a_setting_in_the_row_names_no_other_variable() -> None:
    """Whatever wrote the row: a source that named DPP_SECRET_KEY would send it to its own address."""
    source = a_github()
    AutomationSource.objects.filter(pk=source.pk).update(settings={"token_env": "DPP_SECRET_KEY"})
    with pytest.raises(credentials.NoCredentials, match="names no variable"):
        credentials.credentials_of(row(source))


@pytest.mark.contract("LIF-06", "LIF-11")
def test_lif_06_a_source_that_fails_is_told_once_with_what_and_since_when(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "ENV", ENV.model_copy(update={"DPP_AUTOMATIONS_NOTIFY": "slack:C01"}))
    source = a_jira()
    look(world, source)
    for _ in range(looks.FAILURES_TOLD + 3):
        world.jira.befalls(refuses(401))
        failing = look(world, source)
    alarm = AutomationMessage.objects.get(kind=MessageKind.ALARM)
    since = f"{failing.looked_at:%Y-%m-%d %H:%M}"
    assert alarm.body == (
        f"The source jira fails: TOKEN_REFUSED 401, not looked at since {since} UTC."
        " It does not know the token (any more); give the source a new one."
    )
    assert "jira  JIRA  FAILING  TOKEN_REFUSED 401" in run("list")[0]
    assert json.loads(run("show", "jira", as_json=True)[0])["told"].startswith("TOKEN_REFUSED 401")


def test_lif_06_the_command_makes_rotates_pauses_and_looks() -> None:
    run("make", "github", "--token", said="ghp_typed\n", kind="GITHUB")
    source = AutomationSource.objects.get(name="github")
    assert credentials.credentials_of(source).token == "ghp_typed"
    out, err = run("make", "hook", kind="HOOK", config='{"form": "github"}')
    secret = out.splitlines()[1]
    assert credentials.credentials_of(AutomationSource.objects.get(name="hook")).signing[0].secret == secret
    assert "only time" in err
    run("pause", "github")
    assert not row(source).enabled
    with pytest.raises(CommandError, match="paused"):
        run("look", "github")
    run("resume", "github")
    run("look", "github")
    run("token", "github", said="ghp_second\n")
    assert credentials.credentials_of(row(source)).token == "ghp_second"
    run("change", "github", config='{"own_actors": ["hubot"]}')
    assert row(source).settings == {"own_actors": ["hubot"]}
    assert "were encrypted anew" in run("reencrypt")[0]


@pytest.mark.contract("DPP-97")
@pytest.mark.parametrize("do", sorted(automation_source_acts.COMMANDS))
def test_dpp_97_an_act_on_a_source_leaves_one_entry_and_a_refused_one_none(
    shop: Shop, console: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, do: str
) -> None:
    scene = Scene(shop, console, an_operator_key(), monkeypatch, tmp_path)
    refused, done = automation_source_acts.COMMANDS[do](scene)
    before = list(AuditEntry.objects.values_list("pk", flat=True))
    refused()
    assert list(AuditEntry.objects.values_list("pk", flat=True)) == before
    done()
    (entry,) = AuditEntry.objects.exclude(pk__in=before)
    assert (entry.source, entry.actor) == ("command", "command")


def test_lif_06_a_dry_run_of_the_command_changes_nothing_and_shows_no_secret() -> None:
    out, _err = run("make", "hook", kind="HOOK", config='{"form": "github"}', dry_run=True)
    assert "whsec_" not in out
    assert not AutomationSource.objects.exists()


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        (("make", "x"), {}, "--kind"),
        (("make", "x"), {"kind": "HOOK", "config": "{"}, "--config"),
        (("make", "x"), {"kind": "HOOK", "config": "[]"}, "--config"),
        (("make", "x", "--token"), {"kind": "GITHUB"}, "token"),
        (("show", "nobody"), {}, "no such source"),
    ],
)
def test_lif_06_the_command_names_what_is_wrong(words: tuple[str, ...], options: dict[str, Any], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run(*words, **options)
    assert not AutomationSource.objects.exists()


def test_lif_06_a_source_whose_events_come_by_themselves_is_not_looked_at() -> None:
    answer = acts.look_now(source=a_slack(), actor=ACTOR)
    assert isinstance(answer, Refusal)
    assert answer.reason == "CONFLICT"
