"""What operators may do to tickets, through each door, and what they may not: bad input, approvals, two at once."""

import io
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError
from django.test import Client
from redis import Redis

from budget import services as money
from dpp_project import clock
from dpp_project.observe import metrics
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from dpp_project.stores import redis
from ops.tickets import cycle, emergency, processors, reaper, services, transitions
from ops.tickets.models import OpsRunReceipt, Ticket, TicketResult
from ops.tickets.processors import Later, TicketDone, TicketRefused
from ops.tickets.states import RequestType, TicketStatus
from tenants import authentication
from tenants.models import ApiKey, Tenant
from tests.gear.builders import recovery
from tests.gear.builders import tickets as gear
from tests.gear.builders.shop import Shop, a_body, messages
from tests.gear.builders.tenants import a_key, an_operator_key, bearer

pytestmark = [pytest.mark.contract("TKT-01"), pytest.mark.usefixtures("shop")]

ADMIN = "/admin/tickets/ticket/"
UNSHOWABLE = ["a\x00b", "\x07", "abc\u202edef", "two\nlines"]


def command(*arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command(*arguments, "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def top_up_of(shop: Shop, **values: str) -> dict[str, Any]:
    return {"tenant_id": shop.tenant.pk, "amount_usd": "1.0000"} | values


# Bad input.


@pytest.mark.parametrize("text", UNSHOWABLE, ids=ascii)
def test_tkt_01_text_that_cannot_be_shown_is_refused_at_every_door(console: Client, shop: Shop, text: str) -> None:
    payload = json.dumps(top_up_of(shop, reason=text))
    shown = console.post(f"{ADMIN}add/", {"request_type": "BUDGET_TOPUP", "payload": payload, "reason": ""})
    assert (shown.status_code, "payload.reason" in shown.content.decode()) == (200, True)
    with pytest.raises(CommandError, match=r"^(payload\.reason: |--payload: .* cannot be stored)"):
        call_command("ticket", "create", "BUDGET_TOPUP", payload=payload, by="ada")
    body = {"request_type": "BUDGET_TOPUP", "payload": json.loads(payload)}
    answer = console.post(
        "/api/tickets", json.dumps(body), content_type="application/json", headers=bearer(an_operator_key())
    )
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "payload.reason")
    assert not Ticket.objects.exists()


def test_tkt_01_an_empty_payload_takes_its_defaults_in_the_console(console: Client) -> None:
    form = {"request_type": "BUDGET_REBUILD", "payload": "{}", "reason": ""}
    assert console.post(f"{ADMIN}add/", form).status_code == 302
    assert Ticket.objects.get().payload == {"tenant_id": None}
    for wrong in ("", "null", "[]", "{", '"x"', "7"):
        assert console.post(f"{ADMIN}add/", form | {"payload": wrong}).status_code == 200, wrong
    assert console.post(f"{ADMIN}add/", form | {"request_type": ""}).status_code == 200, "no type is chosen for one"
    assert Ticket.objects.count() == 1


def test_tkt_01_the_console_shows_what_each_type_takes(console: Client) -> None:
    page = console.get(f"{ADMIN}add/").content.decode()
    for one in processors.PROCESSORS.values():
        assert f"{one.request_type}: <code>" in page
    assert ">null<" not in page


def test_tkt_01_an_address_of_no_ticket_is_no_fault_of_the_server(console: Client) -> None:
    for path in ("not-an-id/change/", "not-an-id/approve/", "00000000-0000-0000-0000-000000000007/decline/"):
        assert console.get(ADMIN + path).status_code in {302, 404}, path


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("create", "REBOOT", "--by", "ada"), "subject"),
        (("create", "BUDGET_REBUILD"), "--by"),
        (("create", "BUDGET_REBUILD", "--by", "  "), "--by"),
        (("create", "BUDGET_REBUILD", "--by", "x" * 201), "--by"),
        (("create", "BUDGET_REBUILD", "--by", "a\nb"), "--by"),
        (("create", "BUDGET_REBUILD", "--by", "ada", "--key", ""), "--key"),
        (("create", "BUDGET_REBUILD", "--by", "ada", "--key", "with space"), "--key"),
        (("create", "BUDGET_REBUILD", "--by", "ada", "--payload", "[]"), "payload"),
        (("create", "BUDGET_REBUILD", "--by", "ada", "--payload", "[" * 20_000), "--payload"),
        (
            ("create", "BUDGET_REBUILD", "--by", "ada", "--payload", '{"tenant_id": "t_a", "tenant_id": "t_b"}'),
            "--payload",
        ),
        (("list", "--limit", "0"), "--limit"),
        (("list", "--limit", str(10**30)), "--limit"),
        (("show",), "subject"),
        (("decline", "x", "--by", "ada"), "subject"),
    ],
    ids=lambda part: str(part)[:80],
)
def test_tkt_01_the_command_refuses_and_names_the_argument(
    transactional_db: None, arguments: tuple[str, ...], field: str
) -> None:
    with pytest.raises(CommandError, match=f"^{field}: ") as refused:
        call_command("ticket", *arguments)
    assert refused.value.returncode == 1
    assert not Ticket.objects.exists()


def test_tkt_01_a_payload_that_is_no_object_is_refused_in_words_of_json(transactional_db: None) -> None:
    with pytest.raises(CommandError, match=r"^payload: must be an object$"):
        call_command("ticket", "create", "EXECUTION_DISABLE", "--by", "ada", "--payload", "[]")
    assert not Ticket.objects.exists()


@pytest.mark.parametrize("limit", [0, -1, 10**30])
def test_tkt_07_a_cycle_takes_a_limit_that_it_can_count(transactional_db: None, limit: int) -> None:
    with pytest.raises(CommandError, match=r"^--limit: must be 1 to 1000000$"):
        call_command("ops_cycle", limit=limit)
    assert not OpsRunReceipt.objects.exists()


def test_tkt_01_a_ticket_is_declined_by_command_with_a_reason(shop: Shop) -> None:
    made = command("ticket", "create", "KEY_REVOKE", "--payload", '{"key": "dpp_a1b2c3d4"}', "--by", "ada")
    with pytest.raises(CommandError, match=r"^reason: "):
        call_command("ticket", "decline", made["request_id"], by="ada")
    declined = command("ticket", "decline", made["request_id"], "--by", "ada", "--reason", "not today")
    assert (declined["status"], declined["results"][0]["message"]) == ("FAILED", "declined: not today")
    with pytest.raises(CommandError, match="not OPEN"):
        call_command("ticket", "decline", made["request_id"], by="ada", reason="again")


@pytest.mark.parametrize("text", [" ", "x" * 201, "two\nlines"], ids=ascii)
def test_tkt_07_the_stop_takes_a_reason_and_a_name_that_can_be_shown(console: Client, text: str) -> None:
    for values in ({"reason": text, "by": "ada"}, {"reason": "drill", "by": text}):
        with pytest.raises(CommandError, match=r"^--"):
            call_command("emergency_stop", "on", **values)
    console.post("/admin/tickets/emergencyswitch/add/", {"is_on": "on", "reason": text})
    assert emergency.turn_emergency_stop(on=True, actor="admin:ada", reason=text) is None
    assert emergency.emergency_state() is None


def test_tkt_02_a_type_that_nobody_knows_stops_the_start() -> None:
    environ = os.environ | {"DPP_TICKET_REAPER_EXCLUDED_TYPES": "KEY_REVOKE,KEY_REVOCE"}
    started = subprocess.run(
        [sys.executable, "manage.py", "check"], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert started.returncode == 1
    assert "DPP_TICKET_REAPER_EXCLUDED_TYPES: each must be one of EXECUTION_ENABLE," in started.stderr


# Approvals.


def to_be_approved(requested_by: str = "admin:ada") -> Ticket:
    return gear.opened(RequestType.BUDGET_REBUILD, {}, requested_by=requested_by)


@pytest.mark.parametrize(
    ("requested_by", "by"),
    [
        ("operator:ada", "operator: ADA "),
        ("admin:ada", "operator:ada"),
        ("admin:ada", "command:ada"),
        ("command:ada", "admin:Ada"),
        ("command: ada ", "admin:ada"),
        ("command:\uff41\uff44\uff41", "admin:ada"),
        ("key:dpp_a1b2c3d4", "command:dpp_a1b2c3d4"),
    ],
)
def test_tkt_01_whoever_asked_cannot_approve_through_another_door(shop: Shop, requested_by: str, by: str) -> None:
    ticket = to_be_approved(requested_by)
    refusal = services.approve_ticket(request_id=ticket.pk, by=by)
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.field, gear.row(ticket.pk)) == (ReasonCode.CONFLICT, "by", ticket)


def test_tkt_01_a_key_asks_for_the_person_on_its_label(shop: Shop) -> None:
    key = an_operator_key().key
    ApiKey.objects.filter(pk=key.pk).update(label="Ada")
    ticket = to_be_approved(f"key:dpp_{key.prefix}")
    refusal = services.approve_ticket(request_id=ticket.pk, by="admin:ada")
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.field) == (ReasonCode.CONFLICT, "by")
    assert isinstance(services.approve_ticket(request_id=ticket.pk, by="admin:bob"), Ticket)


def test_tkt_01_of_two_approvals_at_once_one_counts(shop: Shop) -> None:
    ticket = to_be_approved()
    answers = recovery.at_once(
        *(lambda by=by: services.approve_ticket(request_id=ticket.pk, by=f"admin:{by}") for by in ("bob", "eve", "kim"))
    )
    approved = [one for one in answers if isinstance(one, Ticket)]
    refused = [one for one in answers if isinstance(one, Refusal)]
    assert (len(approved), {(one.reason, one.field) for one in refused}) == (1, {(ReasonCode.CONFLICT, "request_id")})
    assert (gear.row(ticket.pk).approved_by, gear.row(ticket.pk).version) == (approved[0].approved_by, 1)
    gear.run_cycle()
    assert (gear.row(ticket.pk).status, gear.row(ticket.pk).attempts) == (TicketStatus.DONE, 1)


def test_tkt_03_an_approval_comes_too_late_for_a_ticket_that_was_reaped_or_declined(shop: Shop) -> None:
    reaped, declined = to_be_approved(), to_be_approved()
    services.approve_ticket(request_id=reaped.pk, by="admin:bob")
    assert transitions.take_ticket(request_id=reaped.pk, version=1) is transitions.EdgeOutcome.WON
    gear.aged(gear.row(reaped.pk), seconds=90_000)
    assert reaper.reap_tickets().report.cleaned_count == 1
    services.decline_ticket(request_id=declined.pk, by="admin:ada", reason="not today")
    for ticket in (reaped, declined):
        before = gear.row(ticket.pk)
        assert isinstance(services.approve_ticket(request_id=ticket.pk, by="admin:eve"), Refusal)
        assert gear.row(ticket.pk) == before
        assert gear.result(ticket).status == "FAILED"


# Two at once.


def test_tkt_01_two_cycles_at_once_do_each_ticket_once(shop: Shop) -> None:
    before = shop.balance_micros()
    tickets = [gear.opened(RequestType.BUDGET_TOPUP, top_up_of(shop)) for _ in range(8)]
    receipts: Any = recovery.at_once(*[gear.run_cycle] * 3)
    processed = [one["request_id"] for receipt in receipts for one in receipt.document["processed"]]
    assert sorted(processed) == sorted(str(ticket.pk) for ticket in tickets)
    assert {gear.row(ticket.pk).attempts for ticket in tickets} == {1}
    assert (shop.balance_micros() - before, TicketResult.objects.count()) == (8_000_000, 8)


def test_tkt_03_a_receipt_says_what_a_processor_did_whose_ticket_was_reaped(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shop.balance_micros()
    ticket = gear.opened(RequestType.BUDGET_TOPUP, top_up_of(shop))
    process = processors.process_ticket

    def and_is_slow(taken: Ticket) -> processors.Processed:
        answer = process(taken)
        assert gear.clean(gear.row(taken.pk)) is transitions.EdgeOutcome.WON
        return answer

    monkeypatch.setattr(processors, "process_ticket", and_is_slow)
    (said,) = gear.run_cycle().document["processed"]
    assert (said["status"], "TOPUP of 1000000 micros stands" in said["message"]) == ("FAILED", True)
    assert (gear.result(ticket).processor_id, shop.balance_micros() - before) == ("TICKET_REAPER", 1_000_000)


def test_tkt_01_what_another_ended_is_not_put_off(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = gear.opened()

    def and_is_slow(taken: Ticket) -> processors.Processed:
        assert gear.clean(gear.row(taken.pk)) is transitions.EdgeOutcome.WON
        return Later("the queue is away")

    monkeypatch.setattr(processors, "process_ticket", and_is_slow)
    (said,) = gear.run_cycle().document["processed"]
    assert (said["status"], gear.row(ticket.pk).status) == ("FAILED", TicketStatus.FAILED)


def test_tkt_01_of_two_switches_at_once_the_later_asked_for_stands(shop: Shop) -> None:
    payload = {"tenant_id": shop.tenant.pk}
    off = gear.taken(request_type=RequestType.EXECUTION_DISABLE, payload=payload)
    on = gear.taken(request_type=RequestType.EXECUTION_ENABLE, payload=payload)
    assert isinstance(processors.process_ticket(off), Later), "the later one is at work"
    assert isinstance(processors.process_ticket(on), TicketDone)
    gear.finish(on)
    assert isinstance(processors.process_ticket(off), TicketRefused)
    assert Tenant.objects.get(pk=shop.tenant.pk).submits_enabled is True


def test_tkt_01_a_redrive_resumed_after_its_run_has_started_is_done(shop: Shop) -> None:
    letter = gear.letter_of(recovery.at_work(shop.tenant))
    ticket = gear.opened(RequestType.DLQ_REDRIVE, {"letter": letter.pk})
    assert isinstance(processors.process_ticket(ticket), TicketRefused), "at the first try there is nothing to send"
    resumed = gear.taken(request_type=RequestType.DLQ_REDRIVE, payload={"letter": letter.pk})
    assert isinstance(processors.process_ticket(resumed), TicketDone), (
        "the message of an earlier try may have started it"
    )
    letter.refresh_from_db()
    assert letter.redriven_at is None


def test_tkt_07_a_preview_counts_each_ticket_once(shop: Shop) -> None:
    stale, waiting = gear.stale(), gear.opened()
    assert (stale.attempts, waiting.status) == (1, TicketStatus.OPEN)
    seen = cycle.preview_ticket_cycle(now=clock.now(), limit=9)
    assert (seen.seen, seen.changed) == (2, 2)


# What is known of a ticket that ends undecided.


def test_tkt_03_the_result_of_a_reaped_ticket_says_whether_its_effect_stands(shop: Shop) -> None:
    run_id = shop.submit().json()["run_id"]
    asked: list[tuple[RequestType, dict[str, Any], str]] = [
        (RequestType.EXECUTION_ENABLE, {"tenant_id": "t_nobody"}, "ABSENT"),
        (RequestType.EXECUTION_ENABLE, {"tenant_id": shop.tenant.pk}, "STANDS"),
        (RequestType.EXECUTION_DISABLE, {"tenant_id": shop.tenant.pk}, "STANDS"),
        (RequestType.BUDGET_TOPUP, top_up_of(shop), "STANDS"),
        (RequestType.KEY_REVOKE, {"key": f"dpp_{a_key(shop.tenant).key.prefix}"}, "STANDS"),
        (RequestType.DLQ_REDRIVE, {"letter": gear.letter_of(recovery.queued(shop.tenant)).pk}, "STANDS"),
        (RequestType.RUN_CANCEL, {"tenant_id": shop.tenant.pk, "run_id": run_id}, "STANDS"),
    ]
    for request_type, payload, effect in asked:
        before = gear.stale(request_type=request_type, payload=payload)
        after = gear.stale(request_type=request_type, payload=payload)
        processors.process_ticket(after)
        reaper.reap_tickets()
        assert gear.result(after).detail == {"effect": effect}, request_type
        if request_type in {RequestType.BUDGET_TOPUP, RequestType.DLQ_REDRIVE, RequestType.RUN_CANCEL}:
            assert gear.result(before).detail == {"effect": "ABSENT"}, request_type


def test_tkt_01_so_does_that_of_one_given_up(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = gear.opened(RequestType.BUDGET_TOPUP, top_up_of(shop))
    process = processors.process_ticket

    def and_forgets(taken: Ticket) -> processors.Processed:
        process(taken)
        raise OperationalError

    monkeypatch.setattr(processors, "process_ticket", and_forgets)
    monkeypatch.setattr(cycle, "ATTEMPTS_MAX", 1)
    gear.run_cycle()
    assert gear.result(ticket).detail == {"effect": "STANDS"}
    assert gear.result(ticket).message.startswith("given up after 1 tries")


# While a tenant's submits are off.


def turn_off(shop: Shop) -> None:
    Tenant.objects.filter(pk=shop.tenant.pk).update(submits_enabled=False)
    authentication.memory.forget()


@pytest.mark.contract("DPP-04")
def test_dpp_04_a_replay_is_answered_while_new_runs_are_refused(shop: Shop) -> None:
    accepted = shop.submit(key="the-first-key")
    turn_off(shop)
    for _ in range(2):  # from the mapping, then from the row
        again = shop.submit(key="the-first-key")
        assert (again.status_code, again.json()) == (202, accepted.json())
        assert again.headers["Idempotent-Replayed"] == "true"
        redis.redis_client().delete(*redis.redis_client().keys("idem:*"))
    other = shop.submit(a_body(inputs={"sleep_ms": 2}), key="the-first-key")
    assert (other.status_code, other.json()["reason_code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert [str(run.run_id) for run in shop.runs()] == [accepted.json()["run_id"]]


@pytest.mark.contract("DPP-04")
def test_dpp_04_nothing_of_a_new_submit_is_left_while_they_are_off(shop: Shop) -> None:
    turn_off(shop)
    refused = shop.submit()
    assert (refused.status_code, refused.json()["reason_code"]) == (403, "EXECUTION_DISABLED")
    assert "X-RateLimit-Remaining" in refused.headers
    shop.nothing_happened()


@pytest.mark.contract("DPP-04")
def test_dpp_04_a_row_whose_submit_died_is_not_resumed_while_they_are_off(shop: Shop) -> None:
    recovery.empty_queues()
    key = "the-key-of-a-dead-one"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(money, "hold", lambda **_: (_ for _ in ()).throw(OperationalError))
        assert shop.submit(key=key).status_code == 503
    turn_off(shop)
    refused = shop.submit(key=key)
    assert (refused.status_code, refused.json()["reason_code"]) == (403, "EXECUTION_DISABLED")
    assert [run.money_state for run in shop.runs()] == ["NONE"]
    assert (shop.holds(), messages()) == ({}, [])
    Tenant.objects.filter(pk=shop.tenant.pk).update(submits_enabled=True)
    authentication.memory.forget()
    assert shop.submit(key=key).status_code == 202
    assert len(shop.runs()) == 1


# Metrics.


@pytest.mark.contract("DPP-74")
def test_tkt_01_metrics_count_what_cycle_and_reaper_do_and_who_waits(shop: Shop) -> None:
    before = figures()
    gear.opened(RequestType.BUDGET_TOPUP, top_up_of(shop))
    gear.opened(RequestType.BUDGET_TOPUP, top_up_of(shop) | {"tenant_id": "t_nobody"})
    to_be_approved()
    gear.stale(request_type=RequestType.KEY_REVOKE, payload={"key": "dpp_a1b2c3d4"})
    waiting = figures()
    assert waiting['dpp_tickets_unfinished{status="OPEN"}'] == 3
    assert waiting['dpp_tickets_unfinished{status="IN_PROGRESS"}'] == 1
    assert waiting["dpp_tickets_waiting_for_approval"] == 1
    assert waiting["dpp_tickets_oldest_due_seconds"] > 0
    gear.run_cycle()
    after = figures()
    counted = {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}
    assert counted['dpp_tickets_processed_total{outcome="DONE",request_type="BUDGET_TOPUP"}'] == 1
    assert counted['dpp_tickets_processed_total{outcome="FAILED",request_type="BUDGET_TOPUP"}'] == 1
    assert counted['dpp_tickets_reaped_total{request_type="KEY_REVOKE"}'] == 1
    assert counted['dpp_tickets_unfinished{status="OPEN"}'] == 1
    assert after["dpp_tickets_oldest_due_seconds"] == 0
    emergency.turn_emergency_stop(on=True, actor="admin:ada", reason="drill")
    assert (before["dpp_emergency_stop"], figures()["dpp_emergency_stop"]) == (0, 1)


def figures() -> dict[str, float]:
    lines = (line.rsplit(" ", 1) for line in metrics.render_metrics().decode().splitlines() if line[:1] != "#")
    return {name: float(value) for name, value in lines if name.startswith(("dpp_tickets", "dpp_emergency"))}


def test_tkt_05_a_tenants_key_opens_no_ticket(shop: Shop, valkey: Redis) -> None:
    refused = shop.client.post(
        "/api/tickets", json.dumps({}), content_type="application/json", headers=bearer(a_key(shop.tenant))
    )
    assert (refused.status_code, refused.json()["reason_code"]) == (403, "SCOPE_MISSING")
    assert not Ticket.objects.exists()
