"""Everything that a person may do, each once refused and once done, by the way it is asked for."""

import io
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.test import Client

from budget.redis import keys as money_keys
from dpp_project.aws import clients
from dpp_project.management.job_command import JobCommand
from dpp_project.settings import ENV
from dpp_project.signin import totp
from dpp_project.signin.models import SecondFactor
from dpp_project.stores import redis
from ops.tickets.states import RequestType
from runs.claims import Claim
from runs.finish import finalization
from runs.finish.finalization import Committed
from runs.models import Run
from runs.operators import disputes
from tenants import services
from tenants.services import IssuedKey
from tests.gear.builders import events as event_gear
from tests.gear.builders import recovery
from tests.gear.builders import runs as run_gear
from tests.gear.builders import tickets as ticket_gear
from tests.gear.builders.console import at_the_prompt
from tests.gear.builders.shop import Shop, messages
from tests.gear.builders.tenants import a_key, bearer

OURS = ("dpp_project", "tenants", "budget", "runs", "reaper", "ops")
"""Whose commands are ours."""


@dataclass
class Scene:
    """A tenant with money, ada at the console, and what she needs."""

    shop: Shop
    console: Client
    operator: IssuedKey
    monkeypatch: pytest.MonkeyPatch
    folder: Path

    @property
    def tenant_id(self) -> str:
        return self.shop.tenant.tenant_id

    def post(self, path: str, **values: Any) -> None:
        answer = self.console.post(f"/admin/{path}", values)
        assert answer.status_code in {200, 302, 403, 404}, (path, answer.status_code)

    def command(self, *arguments: str) -> None:
        try:
            call_command(*arguments, stdout=io.StringIO(), stderr=io.StringIO())
        except (CommandError, SystemExit):
            return

    def call(self, path: str, body: dict[str, Any], **headers: str) -> None:
        answer = self.console.post(
            path,
            json.dumps(body),
            content_type="application/json",
            headers=bearer(self.operator) | {name.replace("_", "-"): value for name, value in headers.items()},
        )
        assert answer.status_code < 500

    def queued(self) -> Run:
        run = run_gear.row(uuid.UUID(self.shop.submit().json()["run_id"]))
        messages()
        return run

    def settled(self, *, disputed: bool = False) -> Run:
        claimed = recovery.worker_claimed(self.shop.tenant)
        finished = finalization.finish_claim(Claim.stored(claimed, actor="worker"))
        assert isinstance(finished, Committed)
        run = run_gear.row(claimed.run_id)
        if disputed:
            assert isinstance(disputes.open_dispute(run_id=run.run_id, reason="wrong", actor="operator:bob"), Run)
        return run

    def differs(self) -> None:
        redis.redis_client().incrby(money_keys.balance_key(self.tenant_id), 1)


Act = Callable[[], object]
Case = Callable[[Scene], tuple[Act, Act]]
"""Makes the scene ready; what is refused there, and what is done."""

CASES: dict[str, Case] = {}


def case(*names: str) -> Callable[[Case], Case]:
    def register(made: Case) -> Case:
        CASES.update(dict.fromkeys(names, made))
        return made

    return register


@case("command data clean")
def _(it: Scene) -> tuple[Act, Act]:
    return lambda: it.command("data", "clean", "--limit", "0"), lambda: it.command("data", "clean")


ACCOUNT = {"display_name": "Acme", "poll_rate_per_minute": "60", "submit_rate_per_minute": "60"}
NO_INLINE = {"api_keys-TOTAL_FORMS": "0", "api_keys-INITIAL_FORMS": "0"}


@case("console tenants.tenant add")
def _(it: Scene) -> tuple[Act, Act]:
    path = "tenants/tenant/add/"
    return (
        lambda: it.post(path, tenant_id="Acme", **ACCOUNT),
        lambda: it.post(path, tenant_id="t_acme", **ACCOUNT),
    )


@case("console tenants.tenant change")
def _(it: Scene) -> tuple[Act, Act]:
    path = f"tenants/tenant/{it.tenant_id}/change/"
    return (
        lambda: it.post(path, **ACCOUNT | {"poll_rate_per_minute": "0"}, **NO_INLINE),
        lambda: it.post(path, **ACCOUNT, **NO_INLINE),
    )


@case("console tenants.tenant suspend")
def _(it: Scene) -> tuple[Act, Act]:
    return (
        lambda: it.post("tenants/tenant/t_operator/suspend/"),
        lambda: it.post(f"tenants/tenant/{it.tenant_id}/suspend/"),
    )


@case("console tenants.tenant resume")
def _(it: Scene) -> tuple[Act, Act]:
    services.suspend_tenant(tenant_id=it.tenant_id, actor="test")
    return (
        lambda: it.post("tenants/tenant/t_unknown/resume/"),
        lambda: it.post(f"tenants/tenant/{it.tenant_id}/resume/"),
    )


@case("console tenants.tenant stop_submits")
def _(it: Scene) -> tuple[Act, Act]:
    path = f"tenants/tenant/{it.tenant_id}/stop_submits/"
    return lambda: it.post(path, reason=" "), lambda: it.post(path, reason="a loop")


@case("console tenants.tenant resume_submits")
def _(it: Scene) -> tuple[Act, Act]:
    services.enable_submits(tenant_id=it.tenant_id, enabled=False, actor="test")
    path = f"tenants/tenant/{it.tenant_id}/resume_submits/"
    return lambda: it.post(path, reason=""), lambda: it.post(path, reason="mended")


@case("console tenants.tenant stop_all_submits")
def _(it: Scene) -> tuple[Act, Act]:
    path = "tenants/tenant/stop_all_submits/"
    return lambda: it.post(path, reason=" "), lambda: it.post(path, reason="wrong prices")


@case("console tenants.tenant resume_all_submits")
def _(it: Scene) -> tuple[Act, Act]:
    services.stop_all_submits(stopped=True, actor="test", reason="drill")
    path = "tenants/tenant/resume_all_submits/"
    return lambda: it.post(path, reason=""), lambda: it.post(path, reason="mended")


@case("command submits stop")
def _(it: Scene) -> tuple[Act, Act]:
    common = ("submits", "stop", "--tenant", it.tenant_id)
    return lambda: it.command(*common), lambda: it.command(*common, "--reason", "a loop")


@case("command submits resume")
def _(it: Scene) -> tuple[Act, Act]:
    services.stop_all_submits(stopped=True, actor="test", reason="drill")
    return lambda: it.command("submits", "resume", "--all"), lambda: it.command(
        "submits", "resume", "--all", "--reason", "mended"
    )


@case("console tenants.apikey add")
def _(it: Scene) -> tuple[Act, Act]:
    path = "tenants/apikey/add/"
    return (
        lambda: it.post(path, tenant=it.tenant_id, scopes=["operator:write"]),
        lambda: it.post(path, tenant=it.tenant_id, scopes=["runs:read"]),
    )


@case("console tenants.apikey rotate")
def _(it: Scene) -> tuple[Act, Act]:
    key, ended = a_key(it.shop.tenant).key, a_key(it.shop.tenant).key
    services.revoke_key(key_id=ended.key_id, actor="test")
    return (
        lambda: it.post(f"tenants/apikey/{ended.pk}/rotate/", grace_hours="0"),
        lambda: it.post(f"tenants/apikey/{key.pk}/rotate/", grace_hours="0"),
    )


@case("console tenants.apikey revoke")
def _(it: Scene) -> tuple[Act, Act]:
    key, ended = a_key(it.shop.tenant).key, a_key(it.shop.tenant).key
    services.revoke_key(key_id=ended.key_id, actor="test")
    return (
        lambda: it.post(f"tenants/apikey/{ended.pk}/revoke/"),
        lambda: it.post(f"tenants/apikey/{key.pk}/revoke/"),
    )


@case("console budget.account top_up")
def _(it: Scene) -> tuple[Act, Act]:
    path = f"budget/account/{it.tenant_id}/top_up/"
    return (
        lambda: it.post(path, amount_usd="1.0000", reference="run:x"),
        lambda: it.post(path, amount_usd="1.0000", reference="x"),
    )


@case("console budget.account adjust")
def _(it: Scene) -> tuple[Act, Act]:
    path = f"budget/account/{it.tenant_id}/adjust/"
    return (
        lambda: it.post(path, amount_usd="-900.0000", reference="x", reason="more than there is"),
        lambda: it.post(path, amount_usd="-1.0000", reference="x", reason="entered twice"),
    )


@case("console budget.account set_caps")
def _(it: Scene) -> tuple[Act, Act]:
    path = f"budget/account/{it.tenant_id}/set_caps/?lineage={it.shop.issued.key.lineage_id}"
    return lambda: it.post(path, day_usd="5"), lambda: it.post(path, day_usd="5.0000", reason="an agent")


@case("command caps set")
def _(it: Scene) -> tuple[Act, Act]:
    common = ("caps", "set", it.tenant_id, "--key", str(it.shop.issued.key))
    return lambda: it.command(*common), lambda: it.command(*common, "--day", "5.0000")


@case("command caps clear")
def _(it: Scene) -> tuple[Act, Act]:
    it.command("caps", "set", it.tenant_id, "--day", "5.0000")
    return lambda: it.command("caps", "clear", it.tenant_id, "--key", "dpp_none"), lambda: it.command(
        "caps", "clear", it.tenant_id
    )


@case("console budget.account rebuild")
def _(it: Scene) -> tuple[Act, Act]:
    return (
        lambda: it.post("budget/account/t_unknown/rebuild/"),
        lambda: it.post(f"budget/account/{it.tenant_id}/rebuild/"),
    )


@case("console runs.run dispute")
def _(it: Scene) -> tuple[Act, Act]:
    run, open_run = it.settled(), it.queued()
    return (
        lambda: it.post(f"runs/run/{open_run.pk}/dispute/", reason="wrong"),
        lambda: it.post(f"runs/run/{run.pk}/dispute/", reason="wrong"),
    )


def _resolved(what: str) -> Case:
    def made(it: Scene) -> tuple[Act, Act]:
        undisputed, run = it.settled(), it.settled(disputed=True)
        return (
            lambda: it.post(f"runs/run/{undisputed.pk}/{what}/", reason="so"),
            lambda: it.post(f"runs/run/{run.pk}/{what}/", reason="so"),
        )

    return made


CASES["console runs.run uphold"], CASES["console runs.run refund"] = _resolved("uphold"), _resolved("refund")


def _on_open_run(what: str) -> Case:
    def made(it: Scene) -> tuple[Act, Act]:
        ended, run = it.settled(), it.queued()
        return lambda: it.post(f"runs/run/{ended.pk}/{what}/"), lambda: it.post(f"runs/run/{run.pk}/{what}/")

    return made


CASES["console runs.run cancel"], CASES["console runs.run requeue"] = _on_open_run("cancel"), _on_open_run("requeue")


def _on_selected(what: str) -> Case:
    def made(it: Scene) -> tuple[Act, Act]:
        ended, run = it.settled(), it.queued()

        def select(chosen: Run) -> None:
            it.post("runs/run/", action=what, _selected_action=[str(chosen.pk)], confirmed="1")

        return lambda: select(ended), lambda: select(run)

    return made


CASES["console runs.run cancel_selected"] = _on_selected("cancel_selected")
CASES["console runs.run requeue_selected"] = _on_selected("requeue_selected")


@case("console reaper.deadletter send_again")
def _(it: Scene) -> tuple[Act, Act]:
    ended, letter = ticket_gear.letter_of(it.settled()), ticket_gear.letter_of(it.queued())
    return (
        lambda: it.post(f"reaper/deadletter/{ended.pk}/send_again/"),
        lambda: it.post(f"reaper/deadletter/{letter.pk}/send_again/"),
    )


@case("console outbox.eventdeadletter send_again")
def _(it: Scene) -> tuple[Act, Act]:
    handled, letter = event_gear.a_letter(status="DONE"), event_gear.a_letter(status="DEAD")
    return (
        lambda: it.post(f"outbox/eventdeadletter/{handled.pk}/send_again/"),
        lambda: it.post(f"outbox/eventdeadletter/{letter.pk}/send_again/"),
    )


@case("console tickets.ticket add")
def _(it: Scene) -> tuple[Act, Act]:
    path = "tickets/ticket/add/"
    return (
        lambda: it.post(path, request_type="KEY_REVOKE", payload="{}"),
        lambda: it.post(path, request_type="KEY_REVOKE", payload='{"key": "dpp_a1b2c3d4"}'),
    )


@case("console tickets.ticket approve")
def _(it: Scene) -> tuple[Act, Act]:
    own = ticket_gear.opened(RequestType.BUDGET_REBUILD, {}, requested_by="operator:ada")
    ticket = ticket_gear.opened(RequestType.BUDGET_REBUILD, {}, requested_by="operator:bob")
    return (
        lambda: it.post(f"tickets/ticket/{own.pk}/approve/"),
        lambda: it.post(f"tickets/ticket/{ticket.pk}/approve/"),
    )


@case("console tickets.ticket decline")
def _(it: Scene) -> tuple[Act, Act]:
    path = f"tickets/ticket/{ticket_gear.opened().pk}/decline/"
    return lambda: it.post(path, reason=" "), lambda: it.post(path, reason="not today")


@case("console tickets.emergencyswitch add")
def _(it: Scene) -> tuple[Act, Act]:
    path = "tickets/emergencyswitch/add/"
    return lambda: it.post(path, is_on="on", reason=" "), lambda: it.post(path, is_on="on", reason="drill")


@case("console auth.user add")
def _(it: Scene) -> tuple[Act, Act]:
    sent = {"username": "bob", "usable_password": "true", "password1": "ae-4-thirty-two"}
    return (
        lambda: it.post("auth/user/add/", **sent, password2="another"),
        lambda: it.post("auth/user/add/", **sent, password2=sent["password1"]),
    )


@case("console auth.user change")
def _(it: Scene) -> tuple[Act, Act]:
    bob = User.objects.create_user("bob")
    sent = {"username": "bob", "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "is_staff": "on"}
    path = f"auth/user/{bob.pk}/change/"
    return lambda: it.post(path, **sent | {"username": ""}), lambda: it.post(path, **sent)


@case("console auth.user delete")
def _(it: Scene) -> tuple[Act, Act]:
    bob = User.objects.create_user("bob")
    return lambda: it.post("auth/user/0/delete/", post="yes"), lambda: it.post(
        f"auth/user/{bob.pk}/delete/", post="yes"
    )


@case("console auth.user remove_second_factor")
def _(it: Scene) -> tuple[Act, Act]:
    bob, cid = User.objects.create_user("bob"), User.objects.create_user("cid")
    SecondFactor.objects.create(user=bob, secret=totp.new_secret())
    return (
        lambda: it.post(f"auth/user/{cid.pk}/remove_second_factor/"),
        lambda: it.post(f"auth/user/{bob.pk}/remove_second_factor/"),
    )


@case("console auth.group add")
def _(it: Scene) -> tuple[Act, Act]:
    return lambda: it.post("auth/group/add/", name=""), lambda: it.post("auth/group/add/", name="readers")


@case("console auth.group change")
def _(it: Scene) -> tuple[Act, Act]:
    path = f"auth/group/{Group.objects.create(name='readers').pk}/change/"
    return lambda: it.post(path, name=""), lambda: it.post(path, name="writers")


@case("console auth.group delete")
def _(it: Scene) -> tuple[Act, Act]:
    group = Group.objects.create(name="readers")
    return (
        lambda: it.post("auth/group/0/delete/", post="yes"),
        lambda: it.post(f"auth/group/{group.pk}/delete/", post="yes"),
    )


@case("command create_tenant")
def _(it: Scene) -> tuple[Act, Act]:
    return lambda: it.command("create_tenant", "Acme"), lambda: it.command("create_tenant", "t_acme")


@case("command create_api_key")
def _(it: Scene) -> tuple[Act, Act]:
    return (
        lambda: it.command("create_api_key", it.tenant_id, "--scopes", "fly"),
        lambda: it.command("create_api_key", it.tenant_id, "--all-scopes"),
    )


@case("command rotate_api_key")
def _(it: Scene) -> tuple[Act, Act]:
    key = str(it.shop.issued.key.key_id)
    return lambda: it.command("rotate_api_key", "dpp_none"), lambda: it.command("rotate_api_key", key)


@case("command revoke_api_key")
def _(it: Scene) -> tuple[Act, Act]:
    key = str(it.shop.issued.key.key_id)
    return lambda: it.command("revoke_api_key", "dpp_none"), lambda: it.command("revoke_api_key", key)


@case("command topup")
def _(it: Scene) -> tuple[Act, Act]:
    return (
        lambda: it.command("topup", it.tenant_id, "1.0000", "--reference", "first"),
        lambda: it.command("topup", it.tenant_id, "1.0000", "--reference", "second"),
    )


@case("command adjust")
def _(it: Scene) -> tuple[Act, Act]:
    common = ("adjust", it.tenant_id, "--reference", "x", "--reason", "so")
    return lambda: it.command(*common, "--amount=-900.0000"), lambda: it.command(*common, "--amount=-1.0000")


@case("command budget_rebuild")
def _(it: Scene) -> tuple[Act, Act]:
    return (
        lambda: it.command("budget_rebuild", "--tenant", "t_unknown"),
        lambda: it.command("budget_rebuild", "--tenant", it.tenant_id),
    )


@case("command money_verify")
def _(it: Scene) -> tuple[Act, Act]:
    it.differs()
    common = ("money_verify", "--tenant", it.tenant_id)
    return lambda: it.command(*common), lambda: it.command(*common, "--repair")


@case("command accept_ledger_loss")
def _(it: Scene) -> tuple[Act, Act]:
    common = ("accept_ledger_loss", "--by", "ada", "--reason", "the disk burned")

    def done() -> None:
        redis.redis_client().lpush(money_keys.EVIDENCE, f"run:{uuid.uuid4()}")
        it.command(*common)

    return lambda: it.command(*common), done


@case("command dlq redrive")
def _(it: Scene) -> tuple[Act, Act]:
    ended, letter = ticket_gear.letter_of(it.settled()), ticket_gear.letter_of(it.queued())
    return lambda: it.command("dlq", "redrive", str(ended.pk)), lambda: it.command("dlq", "redrive", str(letter.pk))


@case("command events redrive")
def _(it: Scene) -> tuple[Act, Act]:
    handled, letter = event_gear.a_letter(status="DONE"), event_gear.a_letter(status="DEAD")
    return (
        lambda: it.command("events", "redrive", str(handled.pk)),
        lambda: it.command("events", "redrive", str(letter.pk)),
    )


@case("command ticket create")
def _(it: Scene) -> tuple[Act, Act]:
    common = ("ticket", "create", "KEY_REVOKE", "--by", "bob", "--payload")
    return lambda: it.command(*common, "{}"), lambda: it.command(*common, '{"key": "dpp_a1b2c3d4"}')


@case("command ticket decline")
def _(it: Scene) -> tuple[Act, Act]:
    common = ("ticket", "decline", str(ticket_gear.opened().pk), "--by", "bob")
    return lambda: it.command(*common), lambda: it.command(*common, "--reason", "not today")


@case("command ticket approve")
def _(it: Scene) -> tuple[Act, Act]:
    own = ticket_gear.opened(RequestType.BUDGET_REBUILD, {}, requested_by="operator:bob")
    ticket = ticket_gear.opened(RequestType.BUDGET_REBUILD, {}, requested_by="operator:ada")
    at_the_prompt(it.monkeypatch, "bob")
    return (
        lambda: it.command("ticket", "approve", str(own.pk), "--by", "bob"),
        lambda: it.command("ticket", "approve", str(ticket.pk), "--by", "bob"),
    )


@case("command emergency_stop on", "command emergency_stop off")
def _(it: Scene) -> tuple[Act, Act]:
    return (
        lambda: it.command("emergency_stop", "on", "--reason", " "),
        lambda: it.command("emergency_stop", "off", "--reason", "drill"),
    )


@case("command provision")
def _(it: Scene) -> tuple[Act, Act]:
    clients.sqs_client().set_queue_attributes(QueueUrl=ENV.DPP_QUEUE_URL, Attributes={"VisibilityTimeout": "60"})
    return lambda: it.command("provision", "--dry-run"), lambda: it.command("provision")


@case("command run_job")
def _(it: Scene) -> tuple[Act, Act]:
    return lambda: it.command("run_job", "no_such_job"), lambda: it.command("run_job", "pending_credits")


def _of_job(name: str) -> Case:
    return lambda it: (lambda: it.command(name, "--limit", "0"), lambda: it.command(name))


CASES |= {
    f"command {name}": _of_job(name)
    for name, app in get_commands().items()
    if str(app).startswith(OURS) and isinstance(load_command_class(str(app), name), JobCommand)
}


@case("api POST v1/tenants/<str:tenant_id>/topups")
def _(it: Scene) -> tuple[Act, Act]:
    path = f"/v1/tenants/{it.tenant_id}/topups"
    return (
        lambda: it.call(path, {"amount_usd": "1"}, Idempotency_Key="key-of-this-test"),
        lambda: it.call(path, {"amount_usd": "1.0000"}, Idempotency_Key="key-of-this-test"),
    )


@case("api POST api/tickets")
def _(it: Scene) -> tuple[Act, Act]:
    body = {"request_type": "KEY_REVOKE", "payload": {"key": "dpp_a1b2c3d4"}}
    return lambda: it.call("/api/tickets", body | {"payload": {}}), lambda: it.call("/api/tickets", body)


@case("api POST api/tickets/reaper/run")
def _(it: Scene) -> tuple[Act, Act]:
    path = "/api/tickets/reaper/run"
    return lambda: it.call(path, {"max_clean": 0}), lambda: it.call(path, {})


@case("console runs.run delete_data")
def _(it: Scene) -> tuple[Act, Act]:
    run, open_run = it.settled(), it.queued()
    return (
        lambda: it.post(f"runs/run/{open_run.pk}/delete_data/"),
        lambda: it.post(f"runs/run/{run.pk}/delete_data/"),
    )
