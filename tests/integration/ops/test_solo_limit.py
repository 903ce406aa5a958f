"""What one person may move alone, at every door, and what takes two (HRD-14)."""

import contextlib
import io
import json
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from budget import ledger
from budget.models import LedgerEntry
from budget.redis import keys as money_keys
from dpp_project.audit.models import AuditEntry
from dpp_project.refusals import Refusal
from dpp_project.stores import redis
from ops.tickets import services
from ops.tickets.models import Ticket
from ops.tickets.states import RequestType, TicketStatus
from runs.claims import Claim
from runs.finish import finalization
from runs.models import Run
from runs.operators import disputes
from tenants import services as tenants
from tenants.services import IssuedKey
from tests.gear import source
from tests.gear.builders import recovery
from tests.gear.builders import runs as run_gear
from tests.gear.builders import tickets as gear
from tests.gear.builders.console import at_the_prompt
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import an_operator_key, bearer

pytestmark = [pytest.mark.contract("HRD-14"), pytest.mark.usefixtures("shop")]

LIMIT, ABOVE, BELOW = "2.0000", "2.0001", "2.0000"
ABOVE_MICROS = 2_000_100


@pytest.fixture(autouse=True)
def _limit(shop: Shop, settings: Any) -> None:
    """Set once the shop has its money."""
    settings.SOLO_LIMIT_USD = LIMIT


def stands(shop: Shop) -> tuple[int, int, int, int]:
    """All that an act would change."""
    tenant_id = shop.tenant.tenant_id
    return (
        ledger.sums_of(tenant_id).total_micros,
        int(str(redis.redis_client().get(money_keys.balance_key(tenant_id)))),
        LedgerEntry.objects.count(),
        AuditEntry.objects.count(),
    )


def disputed(shop: Shop, *, charge_micros: int = 50_000) -> Run:
    claimed = recovery.worker_claimed(shop.tenant)
    finalization.finish_claim(Claim.stored(claimed, actor="worker"))
    assert isinstance(disputes.open_dispute(run_id=claimed.run_id, reason="wrong", actor="operator:bob"), Run)
    run = run_gear.row(claimed.run_id)
    assert run.actual_cost_usd_micros == charge_micros
    return run


def by_api(shop: Shop, console: Client, amount: str) -> str:
    answer = console.post(
        f"/v1/tenants/{shop.tenant.pk}/topups",
        json.dumps({"amount_usd": amount}),
        content_type="application/json",
        headers=bearer(OPERATOR[0]) | {"Idempotency-Key": "a-key-of-this-test"},
    )
    document = answer.json()
    return str(document.get("reason_code", answer.status_code)) + " " + str(document.get("detail", ""))


def by_console(what: str) -> Callable[[Shop, Client, str], str]:
    def act(shop: Shop, console: Client, amount: str) -> str:
        sent = {"amount_usd": amount, "reference": "a-reference", "reason": "so"}
        return console.post(f"/admin/budget/account/{shop.tenant.pk}/{what}/", sent, follow=True).content.decode()

    return act


def by_command(*arguments: str) -> Callable[[Shop, Client, str], str]:
    def act(shop: Shop, console: Client, amount: str) -> str:
        out = io.StringIO()
        given = [one.format(tenant=shop.tenant.pk, amount=amount) for one in arguments]
        with contextlib.suppress(CommandError, SystemExit):
            call_command(*given, "--json", stdout=out, stderr=out)
        return out.getvalue()

    return act


OPERATOR: list[Any] = []
DOORS: dict[str, Callable[[Shop, Client, str], str]] = {
    "API": by_api,
    "console: top up": by_console("top_up"),
    "console: adjust": by_console("adjust"),
    "command: topup": by_command("topup", "{tenant}", "{amount}", "--reference", "r"),
    "command: adjust": by_command("adjust", "{tenant}", "--amount={amount}", "--reference", "r", "--reason", "so"),
    "command: adjust, taking": by_command(
        "adjust", "{tenant}", "--amount=-{amount}", "--reference", "r", "--reason", "so"
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_hrd_14_one_person_enters_the_limit_and_not_a_step_more(shop: Shop, console: Client, door: str) -> None:
    OPERATOR[:] = [an_operator_key()]
    before = stands(shop)
    said = DOORS[door](shop, console, ABOVE)
    assert stands(shop) == before
    assert "2.0000 USD" in said
    assert re.search("BUDGET_(TOPUP|ADJUST) ticket", said)
    DOORS[door](shop, console, BELOW)
    moved = stands(shop)[0] - before[0]
    assert moved == (-2_000_000 if "taking" in door else 2_000_000)


def test_hrd_14_the_same_again_is_answered_as_it_stands_when_the_limit_was_lowered(
    shop: Shop, console: Client, settings: Any
) -> None:
    DOORS["command: topup"](shop, console, BELOW)
    settings.SOLO_LIMIT_USD = "0.0000"
    before = stands(shop)
    assert json.loads(DOORS["command: topup"](shop, console, BELOW))["is_new"] is False
    assert stands(shop) == before


def test_hrd_14_a_dispute_is_refunded_alone_up_to_the_limit(shop: Shop, console: Client, settings: Any) -> None:
    run, path = disputed(shop), "/admin/runs/run/{}/refund/"
    settings.SOLO_LIMIT_USD = "0.0499"
    before = stands(shop)
    shown = console.post(path.format(run.pk), {"reason": "wrong"}, follow=True).content.decode()
    assert "DISPUTE_REFUND ticket" in shown
    assert (stands(shop), run_gear.row(run.pk).money_state) == (before, "DISPUTED")
    settings.SOLO_LIMIT_USD = "0.0500"
    console.post(path.format(run.pk), {"reason": "wrong"})
    assert (stands(shop)[0] - before[0], run_gear.row(run.pk).money_state) == (50_000, "REFUNDED")


def test_hrd_14_a_dispute_above_the_limit_is_refunded_by_a_ticket_of_two(shop: Shop, settings: Any) -> None:
    run = disputed(shop)
    settings.SOLO_LIMIT_USD = "0.0499"
    payload = {"run_id": str(run.pk), "reason": "wrong"}
    ticket = gear.opened(RequestType.DISPUTE_REFUND, payload, requested_by="operator:ada")
    before = stands(shop)
    gear.run_cycle()
    assert (gear.row(ticket.pk).status, stands(shop)) == (TicketStatus.OPEN, before)
    assert isinstance(services.approve_ticket(request_id=ticket.pk, by="operator:bob"), Ticket)
    gear.run_cycle()
    assert gear.row(ticket.pk).status == TicketStatus.DONE
    assert (stands(shop)[0] - before[0], run_gear.row(run.pk).money_state) == (50_000, "REFUNDED")
    recovery.law_holds(shop.tenant)
    again = gear.opened(RequestType.DISPUTE_REFUND, payload, requested_by="operator:ada")
    services.approve_ticket(request_id=again.pk, by="operator:bob")
    gear.run_cycle()
    assert gear.row(again.pk).status == TicketStatus.FAILED, "it went back once"


def test_hrd_14_a_small_refund_is_done_by_one_persons_ticket(shop: Shop) -> None:
    run = disputed(shop)
    ticket = gear.opened(RequestType.DISPUTE_REFUND, {"run_id": str(run.pk), "reason": "wrong"})
    gear.run_cycle()
    assert (gear.row(ticket.pk).status, run_gear.row(run.pk).money_state) == (TicketStatus.DONE, "REFUNDED")


@pytest.mark.parametrize(("amount", "waits"), [(BELOW, False), (ABOVE, True)])
def test_hrd_14_a_top_up_ticket_above_the_limit_waits_for_a_second_person(
    shop: Shop, amount: str, *, waits: bool
) -> None:
    before = stands(shop)[0]
    payload = {"tenant_id": shop.tenant.pk, "amount_usd": amount, "reason": ""}
    ticket = gear.opened(RequestType.BUDGET_TOPUP, payload, requested_by="operator:ada")
    assert ticket.needs_approval is waits
    gear.run_cycle()
    if waits:
        assert stands(shop)[0] == before
        assert not isinstance(services.approve_ticket(request_id=ticket.pk, by="operator:ada"), Ticket)
        assert isinstance(services.approve_ticket(request_id=ticket.pk, by="operator:bob"), Ticket)
        gear.run_cycle()
    assert gear.row(ticket.pk).status == TicketStatus.DONE
    assert stands(shop)[0] - before == (ABOVE_MICROS if waits else 2_000_000)


def test_hrd_14_a_ticket_opened_below_a_limit_that_was_lowered_is_refused(shop: Shop, settings: Any) -> None:
    ticket = gear.opened(RequestType.BUDGET_TOPUP, {"tenant_id": shop.tenant.pk, "amount_usd": BELOW, "reason": ""})
    settings.SOLO_LIMIT_USD = "1.9999"
    before = stands(shop)[0]
    gear.run_cycle()
    assert (gear.row(ticket.pk).status, stands(shop)[0]) == (TicketStatus.FAILED, before)


REBUILDS: dict[str, Callable[[Shop, Client], str]] = {
    "console": lambda shop, console: console.post(
        f"/admin/budget/account/{shop.tenant.pk}/rebuild/", follow=True
    ).content.decode(),
    "money_verify": lambda shop, console: by_command("money_verify", "--tenant", "{tenant}", "--repair")(
        shop, console, ""
    ),
    "one tenant": lambda shop, console: by_command("budget_rebuild", "--tenant", "{tenant}")(shop, console, ""),
    "all tenants": lambda shop, console: by_command("budget_rebuild")(shop, console, ""),
}


@pytest.mark.parametrize("door", REBUILDS)
def test_hrd_14_a_repair_by_hand_moves_the_limit_at_most(shop: Shop, console: Client, door: str) -> None:
    balance = money_keys.balance_key(shop.tenant.tenant_id)
    redis.redis_client().incrby(balance, ABOVE_MICROS)
    before = stands(shop)
    assert "BUDGET_REBUILD ticket" in REBUILDS[door](shop, console)
    assert stands(shop) == before
    redis.redis_client().decrby(balance, 100)
    REBUILDS[door](shop, console)
    assert shop.balance_micros() == recovery.FUNDS_MICROS


@pytest.mark.parametrize("door", ["one tenant", "all tenants"])
def test_hrd_14_what_redis_lost_is_rebuilt_by_one_person_all_the_same(shop: Shop, console: Client, door: str) -> None:
    redis.redis_client().flushall() if door == "all tenants" else redis.redis_client().delete(
        money_keys.balance_key(shop.tenant.tenant_id)
    )
    REBUILDS[door](shop, console)
    assert shop.balance_micros() == recovery.FUNDS_MICROS


def test_hrd_14_a_difference_above_the_limit_is_repaired_by_a_ticket_of_two(shop: Shop) -> None:
    redis.redis_client().incrby(money_keys.balance_key(shop.tenant.tenant_id), ABOVE_MICROS)
    ticket = gear.opened(RequestType.BUDGET_REBUILD, {"tenant_id": shop.tenant.pk}, requested_by="operator:ada")
    services.approve_ticket(request_id=ticket.pk, by="operator:bob")
    gear.run_cycle()
    assert (gear.row(ticket.pk).status, shop.balance_micros()) == (TicketStatus.DONE, recovery.FUNDS_MICROS)


def test_hrd_14_a_ledger_loss_above_the_limit_is_accepted_by_two(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    client, tenant_id = redis.redis_client(), shop.tenant.tenant_id
    client.incrby(money_keys.balance_key(tenant_id), ABOVE_MICROS)
    client.lpush(money_keys.EVIDENCE, f"entry:{uuid.uuid4()}")
    before = stands(shop)
    common = ("accept_ledger_loss", "--reason", "the disk burned", "--by", "ada")
    assert "--approved-by" in by_command(*common)(shop, Client(), "")
    assert stands(shop) == before
    at_the_prompt(monkeypatch, "ada", "bob")
    assert "two people" in by_command(*common, "--approved-by", "ada")(shop, Client(), "")
    assert LedgerEntry.objects.count() == before[2]
    by_command(*common, "--approved-by", "bob")(shop, Client(), "")
    assert stands(shop)[0] - before[0] == ABOVE_MICROS
    entry = AuditEntry.objects.get(act="ledger loss accepted")
    assert entry.actor == "operator:ada"
    assert entry.after is not None
    assert entry.after["approved_by"] == "operator:bob"


# Two people are not two names.


def ticket_command(*arguments: str) -> str:
    """What it was refused with, or nothing."""
    try:
        call_command("ticket", *arguments, stdout=io.StringIO())
    except CommandError as refused:
        return str(refused)
    return ""


def a_waiting_ticket(requested_by: str = "operator:ada") -> Ticket:
    return gear.opened(RequestType.BUDGET_REBUILD, {}, requested_by=requested_by)


def test_hrd_14_an_approval_by_command_takes_the_approvers_password(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket = a_waiting_ticket()
    arguments = ("approve", str(ticket.pk), "--by", "bob")
    at_the_prompt(monkeypatch)
    assert "is wrong" in ticket_command(*arguments), "there is no bob"
    at_the_prompt(monkeypatch, "bob", password="guessed")
    assert "is wrong" in ticket_command(*arguments)
    assert gear.row(ticket.pk).approved_by is None
    assert AuditEntry.objects.filter(act="sign-in failed", subject="operator bob").count() == 2
    at_the_prompt(monkeypatch)
    assert ticket_command(*arguments) == ""
    assert gear.row(ticket.pk).approved_by == "operator:bob"


def test_hrd_14_an_approval_by_command_takes_the_permission(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = a_waiting_ticket()
    at_the_prompt(monkeypatch, "bob")
    User.objects.filter(username="bob").update(is_superuser=False, is_staff=True)
    assert "tickets.change_ticket" in ticket_command("approve", str(ticket.pk), "--by", "bob")
    assert gear.row(ticket.pk).approved_by is None
    User.objects.filter(username="bob").update(is_staff=False)
    assert "is wrong" in ticket_command("approve", str(ticket.pk), "--by", "bob")


def test_hrd_14_a_ticket_that_waits_is_asked_for_under_ones_own_name(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one person asks in another's name, and approves in her own."""
    at_the_prompt(monkeypatch, "ada", password="guessed")
    assert "is wrong" in ticket_command("create", "BUDGET_REBUILD", "--by", "ada")
    assert not Ticket.objects.exists()
    small = json.dumps({"tenant_id": shop.tenant.pk, "amount_usd": BELOW})
    assert ticket_command("create", "BUDGET_TOPUP", "--payload", small, "--by", "ada") == ""
    assert Ticket.objects.get().requested_by == "command:ada", "said, and not proven"


@pytest.mark.parametrize("act", ["issued", "rotated"])
def test_hrd_14_who_saw_a_keys_secret_cannot_approve_what_was_asked_for_with_it(shop: Shop, act: str) -> None:
    issuer, rotator = ("operator:ada", "operator:zoe") if act == "issued" else ("operator:zoe", "operator:ada")
    an_operator_key()
    issued = tenants.issue_key(tenant_id="t_operator", scopes=["operator:write"], actor=issuer)
    assert isinstance(issued, IssuedKey)
    key = issued.key
    if act == "rotated":
        rotated = tenants.rotate_key(key_id=key.key_id, actor=rotator)
        assert isinstance(rotated, IssuedKey)
        key = rotated.key
    ticket = a_waiting_ticket(f"key:dpp_{key.prefix}")
    assert isinstance(services.approve_ticket(request_id=ticket.pk, by="operator:Ada"), Refusal)
    assert isinstance(services.approve_ticket(request_id=ticket.pk, by="operator:bob"), Ticket)


def test_hrd_14_money_is_entered_and_rebuilt_for_people_where_the_limit_is_asked() -> None:
    """A further caller must ask it, and then stand here."""

    def callers(name: str) -> set[str]:
        return {str(path) for path in source.of_product() if re.search(name, source.text(path))}

    assert callers(r"ledger\.append_credit\(") == {"budget/entries.py", "runs/operators/disputes.py"}
    by_itself = {"budget/rebuild/gate_watch.py", "reaper/hold_auditor.py"}
    assert callers(r"rebuild\.rebuild_(tenant|all)\b") - by_itself == {"budget/repairs.py", "budget/ledger_loss.py"}


def test_hrd_14_an_unknown_run_is_refused_when_it_is_processed(shop: Shop) -> None:
    ticket = gear.opened(RequestType.DISPUTE_REFUND, {"run_id": str(uuid.UUID(int=7)), "reason": "x"})
    gear.run_cycle()
    assert gear.row(ticket.pk).status == TicketStatus.FAILED
