"""Tickets as operators open them and as the ops cycle works on them; the emergency stop (TKT-01, TKT-07)."""

import io
import json
import uuid
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test import Client

from budget.models import LedgerEntry
from dpp_project import clock
from dpp_project.aws.sqs_sender import SendFailed
from dpp_project.lifecycle import cleaning
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.tickets import cycle, emergency, processors, reaper, services, transitions
from ops.tickets.models import EmergencySwitch, OpsRunReceipt, Ticket
from ops.tickets.processors import PROCESSORS, Later
from ops.tickets.selectors import ATTEMPTS_MAX, RETRY_AFTER_SECONDS
from ops.tickets.services import Opened
from ops.tickets.states import RequestType, TicketStatus
from ops.tickets.transitions import EdgeOutcome
from runs.models import Run
from tenants import authentication
from tenants.models import ApiKey
from tenants.scopes import Scope
from tests.gear.builders import beat, recovery
from tests.gear.builders import tickets as gear
from tests.gear.builders.console import at_the_prompt, page
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import a_key, an_operator_key, bearer

pytestmark = [pytest.mark.contract("TKT-01"), pytest.mark.usefixtures("shop")]

TICKETS = "/api/tickets"
ENABLE = {"request_type": "EXECUTION_ENABLE", "payload": {"tenant_id": "t_somebody"}}


@pytest.fixture
def operator(client: Client, shop: Shop) -> "Operator":
    return Operator(client)


class Operator:
    def __init__(self, client: Client) -> None:
        self.client, self.headers = client, bearer(an_operator_key())

    def open(self, body: Any, *, status: int = 201, key: str | None = None) -> Any:
        headers = self.headers | ({} if key is None else {"Idempotency-Key": key})
        response = self.client.post(TICKETS, json.dumps(body), content_type="application/json", headers=headers)
        assert response.status_code == status, response.content
        return response

    def get(self, path: str, *, expected: int = 200, **query: Any) -> Any:
        response = self.client.get(path, query, headers=self.headers)
        assert response.status_code == expected, response.content
        return response.json()


# Opening and reading.


def test_tkt_01_a_ticket_is_opened_listed_read_and_worked_on(operator: Operator, shop: Shop) -> None:
    body = {"request_type": "EXECUTION_DISABLE", "payload": {"tenant_id": shop.tenant.pk}, "reason": "unpaid"}
    made = operator.open(body).json()
    assert (made["status"], made["results"], made["last_processed_at"]) == ("OPEN", [], None)
    assert made["requested_by"].startswith("key:dpp_")
    assert operator.get(f"{TICKETS}/{made['request_id']}") == made
    assert operator.get(TICKETS)["tickets"] == [made]
    gear.run_cycle()
    done = operator.get(f"{TICKETS}/{made['request_id']}")
    assert (done["status"], done["attempts"]) == ("DONE", 1)
    assert done["last_processed_at"] is not None
    (result,) = done["results"]
    assert (result["request_id"], result["processor_id"], result["status"]) == (made["request_id"], "OPS_CYCLE", "DONE")


def test_tkt_01_one_ticket_per_idempotency_key(operator: Operator) -> None:
    made = operator.open(ENABLE, key="ticket-key-1").json()
    again = operator.open(ENABLE, key="ticket-key-1", status=200)
    assert (again.json(), again.headers["Idempotent-Replayed"]) == (made, "true")
    refused = operator.open(ENABLE | {"reason": "other"}, key="ticket-key-1", status=409)
    assert refused.json()["reason_code"] == "IDEMPOTENCY_CONFLICT"
    assert Ticket.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "request_type"),
        (ENABLE | {"request_type": "REBOOT"}, "request_type"),
        (ENABLE | {"payload": {}}, "payload.tenant_id"),
        (ENABLE | {"payload": {"tenant_id": "acme"}}, "payload.tenant_id"),
        (ENABLE | {"payload": {"tenant_id": "t_a", "more": 1}}, "payload.more"),
        (ENABLE | {"reason": "x" * 201}, "reason"),
        (
            {"request_type": "BUDGET_TOPUP", "payload": {"tenant_id": "t_a", "amount_usd": "-1.0000"}},
            "payload.amount_usd",
        ),
        ({"request_type": "BUDGET_ADJUST", "payload": {"tenant_id": "t_a", "amount_usd": "1.0000"}}, "payload.reason"),
        ({"request_type": "KEY_REVOKE", "payload": {"key": f"dpp_a1b2c3d4_{'s' * 43}"}}, "payload.key"),
        ({"request_type": "DLQ_REDRIVE", "payload": {"letter": "7"}}, "payload.letter"),
        ({"request_type": "RUN_CANCEL", "payload": {"tenant_id": "t_a", "run_id": "x"}}, "payload.run_id"),
    ],
    ids=str,
)
def test_tkt_01_a_wrong_ticket_is_refused_by_field(operator: Operator, body: dict[str, Any], field: str) -> None:
    problem = operator.open(body, status=422).json()
    assert field in [error["field"] for error in problem["errors"]]
    assert not Ticket.objects.exists()


def test_tkt_01_pages_and_filters(operator: Operator) -> None:
    made = [operator.open(ENABLE).json()["request_id"] for _ in range(3)]
    first = operator.get(TICKETS, limit=2)
    rest = operator.get(TICKETS, limit=2, cursor=first["next_cursor"])
    assert [one["request_id"] for one in first["tickets"] + rest["tickets"]] == made[::-1]
    assert rest["next_cursor"] is None
    assert operator.get(TICKETS, status="DONE") == {"tickets": [], "next_cursor": None}
    assert len(operator.get(TICKETS, request_type="EXECUTION_ENABLE")["tickets"]) == 3
    operator.get(TICKETS, cursor="no", expected=422)


def test_tkt_01_unknown_and_malformed_ids_are_not_found_and_tenants_are_kept_out(operator: Operator) -> None:
    for thing in (str(uuid.uuid4()), "malformed"):
        assert operator.get(f"{TICKETS}/{thing}", expected=404)["reason_code"] == "NOT_FOUND"
        refused = operator.client.get(f"{TICKETS}/{thing}", headers=bearer(a_key()))
        assert (refused.status_code, refused.json()["reason_code"]) == (403, "SCOPE_MISSING")
    reader = bearer(an_operator_key(scopes=[Scope.OPERATOR_READ]))
    refused = operator.client.post(TICKETS, json.dumps(ENABLE), content_type="application/json", headers=reader)
    assert (refused.status_code, Ticket.objects.count()) == (403, 0)


# What each type does.


def worked(request_type: RequestType, payload: dict[str, Any], *, approved: bool = False) -> Ticket:
    ticket = gear.opened(request_type, payload)
    if approved:
        assert isinstance(services.approve_ticket(request_id=ticket.pk, by="operator:bob"), Ticket)
    gear.run_cycle()
    return gear.row(ticket.pk)


def test_tkt_01_submits_are_turned_off_and_on_and_reads_go_on(shop: Shop) -> None:
    run_id = shop.submit().json()["run_id"]
    assert worked(RequestType.EXECUTION_DISABLE, {"tenant_id": shop.tenant.pk}).status == TicketStatus.DONE
    authentication.memory.forget()
    refused = shop.submit()
    assert (refused.status_code, refused.json()["reason_code"]) == (403, "EXECUTION_DISABLED")
    assert [str(run.run_id) for run in shop.runs()] == [run_id]
    assert shop.get(f"/v1/runs/{run_id}").status_code == 200
    assert worked(RequestType.EXECUTION_ENABLE, {"tenant_id": shop.tenant.pk}).status == TicketStatus.DONE
    authentication.memory.forget()
    assert shop.submit().status_code == 202


def test_tkt_01_an_old_switch_does_not_undo_a_later_one(shop: Shop) -> None:
    payload = {"tenant_id": shop.tenant.pk}
    left = gear.aged(gear.taken(request_type=RequestType.EXECUTION_DISABLE, payload=payload), seconds=400)
    later = gear.opened(RequestType.EXECUTION_ENABLE, payload)
    assert cycle.work_on(later) is not None
    gear.run_cycle()
    assert (gear.row(left.pk).status, gear.row(later.pk).status) == (TicketStatus.FAILED, TicketStatus.DONE)
    shop.tenant.refresh_from_db()
    assert shop.tenant.submits_enabled is True


def test_tkt_01_a_top_up_is_entered_once_by_its_tickets_id(shop: Shop) -> None:
    before = shop.balance_micros()
    ticket = worked(RequestType.BUDGET_TOPUP, {"tenant_id": shop.tenant.pk, "amount_usd": "2.5000"})
    assert (ticket.status, shop.balance_micros() - before) == (TicketStatus.DONE, 2_500_000)
    entry = LedgerEntry.objects.get(reference=f"ticket-{ticket.pk}")
    assert (entry.kind, entry.actor) == ("TOPUP", f"ticket:{ticket.pk}")


class Died(BaseException):
    """The process ends here."""


def test_tkt_01_dying_between_effect_and_finish_does_it_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shop.balance_micros()
    ticket = gear.opened(RequestType.BUDGET_TOPUP, {"tenant_id": shop.tenant.pk, "amount_usd": "2.5000"})

    def dies(**_values: Any) -> EdgeOutcome:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(transitions, "finish_ticket", dies)
        with pytest.raises(Died):
            gear.run_cycle()
    assert (gear.row(ticket.pk).status, shop.balance_micros() - before) == (TicketStatus.IN_PROGRESS, 2_500_000)
    gear.run_cycle()
    assert gear.row(ticket.pk).status == TicketStatus.IN_PROGRESS, "its processor may only be slow"
    gear.aged(gear.row(ticket.pk), seconds=RETRY_AFTER_SECONDS + 1)
    gear.run_cycle()
    assert (gear.row(ticket.pk).status, gear.row(ticket.pk).attempts) == (TicketStatus.DONE, 2)
    assert shop.balance_micros() - before == 2_500_000
    assert LedgerEntry.objects.filter(reference=f"ticket-{ticket.pk}").count() == 1


def test_tkt_01_a_slow_processor_loses_its_finish_to_whoever_resumed(shop: Shop) -> None:
    slow = gear.taken()
    assert transitions.resume_ticket(request_id=slow.pk, version=slow.version) is EdgeOutcome.WON
    assert gear.finish(slow) is EdgeOutcome.LOST
    assert gear.row(slow.pk).status == TicketStatus.IN_PROGRESS


def test_tkt_01_an_adjustment_waits_for_a_second_operator(shop: Shop) -> None:
    before = shop.balance_micros()
    payload = {"tenant_id": shop.tenant.pk, "amount_usd": "-1.0000", "reason": "Entered twice"}
    ticket = gear.opened(RequestType.BUDGET_ADJUST, payload, requested_by="operator:ada")
    gear.run_cycle()
    assert (gear.row(ticket.pk).status, shop.balance_micros()) == (TicketStatus.OPEN, before)
    for same in ("operator:Ada", "admin:ada", "command:ada"):
        refusal = services.approve_ticket(request_id=ticket.pk, by=same)
        assert isinstance(refusal, Refusal)
        assert (refusal.reason, refusal.field) == (ReasonCode.CONFLICT, "by")
    assert isinstance(services.approve_ticket(request_id=ticket.pk, by="operator:bob"), Ticket)
    gear.run_cycle()
    assert (gear.row(ticket.pk).status, before - shop.balance_micros()) == (TicketStatus.DONE, 1_000_000)


def test_tkt_01_one_operator_approves_and_the_next_is_told(shop: Shop) -> None:
    payload = {"tenant_id": shop.tenant.pk, "amount_usd": "-1.0000", "reason": "Entered twice"}
    ticket = gear.opened(RequestType.BUDGET_ADJUST, payload, requested_by="operator:ada")
    assert isinstance(services.approve_ticket(request_id=ticket.pk, by="operator:bob"), Ticket)
    refusal = services.approve_ticket(request_id=ticket.pk, by="operator:cid")
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.field) == (ReasonCode.CONFLICT, "request_id")
    assert (gear.row(ticket.pk).approved_by, gear.row(ticket.pk).version) == ("operator:bob", 1)


def test_tkt_01_a_key_is_revoked(shop: Shop) -> None:
    ticket = worked(RequestType.KEY_REVOKE, {"key": f"dpp_{shop.issued.key.prefix}"})
    assert ticket.status == TicketStatus.DONE
    assert ApiKey.objects.get(pk=shop.issued.key.pk).status == "REVOKED"


def test_tkt_01_a_run_is_canceled_once_also_when_asked_again(shop: Shop) -> None:
    run_id = shop.submit().json()["run_id"]
    ticket = worked(RequestType.RUN_CANCEL, {"tenant_id": shop.tenant.pk, "run_id": run_id})
    assert ticket.status == TicketStatus.DONE
    assert Run.objects.get(pk=run_id).last_error_reason_code == "CANCELED_BY_OPERATOR"
    assert shop.balance_micros() == recovery.FUNDS_MICROS
    assert isinstance(processors.process_ticket(ticket), processors.TicketDone), "resumed after its effect"
    another = worked(RequestType.RUN_CANCEL, {"tenant_id": shop.tenant.pk, "run_id": run_id})
    assert another.status == TicketStatus.FAILED


def test_tkt_01_balances_are_rebuilt_once_approved(shop: Shop) -> None:
    ticket = worked(RequestType.BUDGET_REBUILD, {"tenant_id": shop.tenant.pk}, approved=True)
    assert ticket.status == TicketStatus.DONE
    assert gear.result(ticket).detail["balance_usd_micros"] == recovery.FUNDS_MICROS
    assert shop.balance_micros() == recovery.FUNDS_MICROS


def test_tkt_01_a_dead_letter_is_sent_again(shop: Shop) -> None:
    letter = gear.letter_of(recovery.queued(shop.tenant))
    ticket = worked(RequestType.DLQ_REDRIVE, {"letter": letter.pk})
    letter.refresh_from_db()
    assert (ticket.status, letter.redriven_by) == (TicketStatus.DONE, f"ticket:{ticket.pk}")


@pytest.mark.parametrize(
    ("request_type", "payload"),
    [
        (RequestType.EXECUTION_ENABLE, {"tenant_id": "t_nobody"}),
        (RequestType.EXECUTION_DISABLE, {"tenant_id": "t_operator"}),
        (RequestType.BUDGET_TOPUP, {"tenant_id": "t_nobody", "amount_usd": "1.0000"}),
        (RequestType.BUDGET_ADJUST, {"tenant_id": "t_nobody", "amount_usd": "1.0000", "reason": "x"}),
        (RequestType.BUDGET_REBUILD, {"tenant_id": "t_nobody"}),
        (RequestType.KEY_REVOKE, {"key": "dpp_00000000"}),
        (RequestType.DLQ_REDRIVE, {"letter": 7}),
        (RequestType.RUN_CANCEL, {"tenant_id": "t_nobody", "run_id": str(uuid.UUID(int=7))}),
    ],
)
def test_tkt_01_what_cannot_be_done_ends_failed_with_its_cause(
    shop: Shop, request_type: RequestType, payload: dict[str, Any]
) -> None:
    entries = LedgerEntry.objects.count()
    ticket = worked(request_type, payload, approved=PROCESSORS[request_type].dangerous)
    assert (ticket.status, gear.result(ticket).status) == (TicketStatus.FAILED, "FAILED")
    assert gear.result(ticket).message
    assert LedgerEntry.objects.count() == entries


def test_tkt_01_every_type_has_a_processor_and_a_right_example() -> None:
    assert set(PROCESSORS) == set(RequestType)
    for one in PROCESSORS.values():
        assert services.ticket_fault(request_type=one.request_type, payload=dict(one.example), reason="") is None


def test_tkt_01_what_fails_for_now_is_tried_again_and_then_given_up(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket = gear.opened()

    def away(_ticket: Ticket) -> Later:
        raise SendFailed("away")

    monkeypatch.setattr(processors, "process_ticket", away)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        gear.run_cycle()
        assert gear.row(ticket.pk).attempts == attempt
        if attempt < ATTEMPTS_MAX:
            assert gear.row(ticket.pk).last_processed_at is not None
            gear.run_cycle()
            assert gear.row(ticket.pk).attempts == attempt, "not before five minutes"
            gear.aged(gear.row(ticket.pk), seconds=RETRY_AFTER_SECONDS + 1)
    assert gear.row(ticket.pk).status == TicketStatus.FAILED
    assert gear.result(ticket).message == "given up after 5 tries: it failed with SendFailed"


# The database.


@pytest.mark.django_db(transaction=True)
def test_tkt_01_the_database_refuses_what_no_edge_does() -> None:
    done, opened = gear.taken(), gear.opened()
    gear.finish(done)
    for statement, ticket in (
        ("UPDATE tickets SET status = 'OPEN', version = version + 1 WHERE request_id = %s", done),
        (
            "UPDATE tickets SET status = 'DONE', in_progress_at = now(), version = version + 1 WHERE request_id = %s",
            opened,
        ),
        ("UPDATE tickets SET attempts = 9 WHERE request_id = %s", opened),
        ("UPDATE tickets SET payload = '{}', version = version + 1 WHERE request_id = %s", opened),
        ("DELETE FROM tickets WHERE request_id = %s", opened),
        ("UPDATE ticket_results SET message = 'x' WHERE ticket_id = %s", done),
    ):
        with pytest.raises((DatabaseError, IntegrityError)), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, [ticket.pk])
    assert (gear.row(done.pk).status, gear.row(opened.pk).version) == (TicketStatus.DONE, 0)


# The cycle.


@pytest.mark.contract("TKT-07")
def test_tkt_07_the_cycle_goes_step_by_step_and_leaves_a_receipt(shop: Shop) -> None:
    old = gear.stale()
    mine = [gear.opened(payload={"tenant_id": shop.tenant.pk}) for _ in range(3)]
    receipt = gear.run_cycle(limit=2)
    document = OpsRunReceipt.objects.get(pk=receipt.pk).document
    assert [(one["step"], one["name"], one["status"]) for one in document["steps"]] == [
        ("0", "emergency_stop_check", "OK"),
        ("0.25", "ticket_reaper", "OK"),
        ("0.5", "ticket_selection", "OK"),
        ("1", "ticket_processing", "OK"),
    ]
    assert document["ticket_reaper"] == json.loads(reaper.latest_reaper_report() or b"")
    assert document["ticket_reaper"]["cleaned_items"][0]["request_id"] == str(old.pk)
    assert document["selected"] == [str(ticket.pk) for ticket in mine[:2]], "oldest first, bounded, and not the reaped"
    assert [one["status"] for one in document["processed"]] == ["DONE", "DONE"]
    assert gear.row(mine[2].pk).status == TicketStatus.OPEN


@pytest.mark.contract("TKT-07")
def test_tkt_07_the_emergency_stop_keeps_everything_from_running(shop: Shop) -> None:
    old, waiting = gear.stale(), gear.opened(payload={"tenant_id": shop.tenant.pk})
    emergency.turn_emergency_stop(on=True, actor="operator:ada", reason="wrong prices")
    document = gear.run_cycle().document
    assert document["decision"] == "STOPPED"
    assert [one["status"] for one in document["steps"]] == ["STOPPED", "SKIPPED", "SKIPPED", "SKIPPED"]
    assert (document["ticket_reaper"], document["selected"], document["processed"]) == (None, [], [])
    stop = document["emergency_stop"]
    assert (stop["on"], stop["actor"], stop["reason"]) == (True, "operator:ada", "wrong prices")
    assert stop["at"].endswith("+09:00")
    assert (gear.row(old.pk).status, gear.row(waiting.pk).status) == (TicketStatus.IN_PROGRESS, TicketStatus.OPEN)
    assert cycle.preview_ticket_cycle(now=clock.now(), limit=9).changed == 0
    emergency.turn_emergency_stop(on=False, actor="operator:ada", reason="mended")
    assert gear.run_cycle().document["decision"] == "RAN"
    assert (gear.row(old.pk).status, gear.row(waiting.pk).status) == (TicketStatus.FAILED, TicketStatus.DONE)


@pytest.mark.contract("TKT-07")
def test_tkt_07_the_stop_turned_on_meanwhile_leaves_the_rest(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (gear.opened(payload={"tenant_id": shop.tenant.pk}) for _ in range(2))
    process = processors.process_ticket

    def then_stop(ticket: Ticket) -> processors.Processed:
        emergency.turn_emergency_stop(on=True, actor="operator:ada", reason="enough")
        return process(ticket)

    monkeypatch.setattr(processors, "process_ticket", then_stop)
    document = gear.run_cycle().document
    assert (document["decision"], document["steps"][3]["status"]) == ("STOPPED", "STOPPED")
    assert (gear.row(first.pk).status, gear.row(second.pk).status) == (TicketStatus.DONE, TicketStatus.OPEN)


@pytest.mark.contract("TKT-07")
def test_tkt_07_a_step_that_fails_is_named_and_the_next_one_runs(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = gear.opened(payload={"tenant_id": shop.tenant.pk})

    def fails(**_values: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(reaper, "reap_tickets", fails)
        document = gear.run_cycle().document
    assert (document["steps"][1]["status"], document["steps"][1]["note"]) == ("FAILED", "RuntimeError")
    assert (document["ticket_reaper"], gear.row(ticket.pk).status) == (None, TicketStatus.DONE)


@pytest.mark.contract("TKT-04", "TKT-07")
def test_tkt_07_what_is_stale_is_left_to_the_reaper_beyond_its_bound_and_when_it_fails(
    shop: Shop, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TICKET_REAPER_MAX_CLEAN = 1
    settings.TICKET_REAPER_EXCLUDED_TYPES = ["EXECUTION_DISABLE"]
    payload = {"tenant_id": shop.tenant.pk}
    stale = [gear.stale(payload=payload) for _ in range(3)]
    excluded = gear.stale(request_type=RequestType.EXECUTION_DISABLE, payload=payload | {"tenant_id": "t_nobody"})
    assert gear.run_cycle().document["selected"] == [str(excluded.pk)], "nobody but the cycle would ever end it"
    with monkeypatch.context() as patch:
        patch.setattr(reaper, "reap_tickets", lambda: 1 / 0)
        assert gear.run_cycle().document["selected"] == []
    gear.run_cycle()
    assert gear.run_cycle().document["ticket_reaper"]["stale_count"] == 1
    assert {gear.result(ticket).processor_id for ticket in stale} == {"TICKET_REAPER"}


@pytest.mark.contract("TKT-07")
def test_tkt_07_unknown_whether_stopped_nothing_runs(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = gear.opened(payload={"tenant_id": shop.tenant.pk})

    def fails() -> None:
        raise DatabaseError

    monkeypatch.setattr(emergency, "emergency_state", fails)
    document = gear.run_cycle().document
    assert [one["status"] for one in document["steps"]] == ["FAILED", "SKIPPED", "SKIPPED", "SKIPPED"]
    assert gear.row(ticket.pk).status == TicketStatus.OPEN


@pytest.mark.contract("TKT-07")
def test_tkt_07_it_is_a_job_of_every_minute_and_a_command(shop: Shop) -> None:
    assert list(beat.seconds_of("ops_cycle", until=180)) == [0, 60, 120, 180]
    gear.opened(payload={"tenant_id": shop.tenant.pk})
    assert command("ops_cycle", "--dry-run")["changed"] == 1
    assert not OpsRunReceipt.objects.exists()
    answer = command("ops_cycle")
    assert (answer["seen"], answer["changed"], answer["errors"]) == (1, 1, 0)
    assert answer["detail"]["receipt"] == OpsRunReceipt.objects.get().pk


# By hand.


def command(*arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command(*arguments, "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def test_tkt_01_tickets_by_command(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    at_the_prompt(monkeypatch, "ada", "bob")
    create = ("ticket", "create", "BUDGET_REBUILD", "--payload", "{}", "--by", "ada")
    assert command(*create, "--dry-run")["dry_run"] is True
    assert not Ticket.objects.exists()
    made = command(*create)
    assert (made["status"], made["needs_approval"], made["requested_by"]) == ("OPEN", True, "operator:ada")
    assert command("ticket", "list")["tickets"][0]["request_id"] == made["request_id"]
    with pytest.raises(CommandError, match="another operator"):
        call_command("ticket", "approve", made["request_id"], by="ada")
    command("ticket", "approve", made["request_id"], "--by", "bob")
    assert command("ticket", "show", made["request_id"])["approved_by"] == "operator:bob"
    for wrong in (("REBOOT",), ("KEY_REVOKE",), ("KEY_REVOKE", "--payload", "{")):
        with pytest.raises(CommandError):
            call_command("ticket", "create", *wrong, "--by", "ada")
    assert Ticket.objects.count() == 1


@pytest.mark.contract("TKT-07")
def test_tkt_07_the_emergency_stop_by_command(shop: Shop) -> None:
    assert command("emergency_stop", "status")["on"] is False
    with pytest.raises(CommandError, match=r"^--reason: "):
        call_command("emergency_stop", "on")
    command("emergency_stop", "on", "--reason", "drill", "--dry-run")
    assert not EmergencySwitch.objects.exists()
    answer = command("emergency_stop", "on", "--reason", "drill", "--by", "ada")
    assert (answer["on"], answer["actor"], answer["reason"]) == (True, "command:ada", "drill")
    assert emergency.is_on()
    command("emergency_stop", "off", "--reason", "over")
    assert (emergency.is_on(), EmergencySwitch.objects.count()) == (False, 2)
    with pytest.raises(DatabaseError), transaction.atomic():
        EmergencySwitch.objects.update(reason="another")


# The console.


def test_tkt_01_a_ticket_is_made_and_declined_in_the_console(console: Client) -> None:
    form = {"request_type": "EXECUTION_ENABLE", "payload": '{"tenant_id": "acme"}', "reason": "by phone"}
    address = "/admin/tickets/ticket/"
    assert "payload.tenant_id" in console.post(f"{address}add/", form).content.decode()
    assert not Ticket.objects.exists()
    assert console.post(f"{address}add/", form | {"payload": '{"tenant_id": "t_acme"}'}).status_code == 302
    ticket = Ticket.objects.get()
    assert (ticket.requested_by, ticket.payload) == ("operator:ada", {"tenant_id": "t_acme"})
    assert str(ticket.pk) in page(console, f"{address}{ticket.pk}/change/")
    assert console.post(f"{address}{ticket.pk}/decline/", {"reason": " "}).status_code == 200
    assert gear.row(ticket.pk).status == TicketStatus.OPEN
    assert console.post(f"{address}{ticket.pk}/decline/", {"reason": "asked twice"}).status_code == 302
    assert (gear.row(ticket.pk).status, gear.result(ticket).processor_id) == (TicketStatus.FAILED, "OPERATOR")
    shown = page(console, f"{address}{ticket.pk}/change/")
    assert "OPERATOR: declined: asked twice" in shown
    assert "declined_by" in shown
    assert console.post(f"{address}{ticket.pk}/delete/").status_code == 403


def test_tkt_01_a_second_operator_approves_in_the_console(console: Client) -> None:
    mine = gear.opened(RequestType.BUDGET_REBUILD, {}, requested_by="operator:ada")
    theirs = gear.opened(RequestType.BUDGET_REBUILD, {}, requested_by="operator:bob")
    for ticket in (mine, theirs):
        address = f"/admin/tickets/ticket/{ticket.pk}/approve/"
        assert "asked for by" in page(console, address)
        assert console.post(address).status_code == 302
    assert gear.row(mine.pk).approved_by is None
    assert gear.row(theirs.pk).approved_by == "operator:ada"


@pytest.mark.contract("TKT-07")
def test_tkt_07_the_console_turns_the_stop_and_shows_receipts(console: Client) -> None:
    address = "/admin/tickets/emergencyswitch/"
    console.post(f"{address}add/", {"is_on": "on", "reason": " "})
    assert not EmergencySwitch.objects.exists()
    assert console.post(f"{address}add/", {"is_on": "on", "reason": "drill"}).status_code == 302
    assert (emergency.is_on(), EmergencySwitch.objects.get().actor) == (True, "operator:ada")
    assert "drill" in page(console, address)
    receipt = gear.run_cycle()
    reaper.reap_tickets()
    assert "OPS_RUN_RECEIPT_V1" in page(console, f"/admin/tickets/opsrunreceipt/{receipt.pk}/change/")
    for path in ("opsrunreceipt/", "reaperreport/", "ticket/", "ticket/add/"):
        page(console, f"/admin/tickets/{path}")
    assert "Ticket cycle" in page(console, "/admin/")


def test_two_at_once_with_one_key_open_one_ticket(shop: Shop) -> None:
    def ask() -> Opened | Refusal:
        return services.open_ticket(
            request_type=RequestType.EXECUTION_ENABLE,
            payload={"tenant_id": "t_a"},
            reason="",
            requested_by="key:x",
            idempotency_key="the-same-key",
        )

    answers = recovery.at_once(ask, ask, ask)
    assert sorted(isinstance(one, Opened) and one.is_new for one in answers) == [False, False, True]
    assert Ticket.objects.count() == 1


def test_tkt_07_receipts_and_reports_go_after_thirty_days(shop: Shop) -> None:
    gear.run_cycle()
    OpsRunReceipt.objects.update(asof="2026-01-01T00:00:00Z")
    assert cleaning.clean_now(now=clock.now(), limit=10, only="ops_run_receipts").changed == 1
    assert not OpsRunReceipt.objects.exists()
