"""What is told, by which statement, and that nothing of it can fail a commit of money or make it wait (HOOK-01)."""

from typing import Any

import pytest
from django.db import connection, transaction

from budget import ledger
from dpp_project.reasons import ReasonCode
from runs import transitions
from runs.claims import LOST
from runs.intents import FREES_ITS_KEY, Intent
from runs.models import Run
from runs.operators import disputes
from tenants.models import Tenant
from tenants.webhooks.models import WebhookEndpoint, WebhookMessage
from tests.gear.builders import runs as gear
from tests.gear.builders import webhook_sending as hooks
from tests.gear.builders.tenants import a_tenant
from tests.gear.faults.rivals import OnAnotherConnection
from tests.gear.waiting import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.contract("HOOK-01"),
    pytest.mark.usefixtures("valkey"),
]

ENDS: dict[str, tuple[Intent, str, dict[str, Any]]] = {
    "completed": (
        gear.COMPLETED,
        "run.completed",
        {
            "status": "COMPLETED",
            "money_state": "SETTLED",
            "reason_code": None,
            "cost": {"used": "0.0500", "used_usd_micros": 50_000, "refunded": "0.0000", "refunded_usd_micros": 0},
        },
    ),
    "failed": (
        gear.fee(ReasonCode.PACK_FAILED),
        "run.failed",
        {
            "status": "FAILED",
            "money_state": "SETTLED",
            "reason_code": "PACK_FAILED",
            "cost": {"used": "0.0050", "used_usd_micros": 5_000, "refunded": "0.0000", "refunded_usd_micros": 0},
        },
    ),
    "canceled": (
        gear.REFUND,
        "run.refunded",
        {
            "status": "FAILED",
            "money_state": "REFUNDED",
            "reason_code": "CANCELED_BY_OWNER",
            "cost": {"used": "0.0000", "used_usd_micros": 0, "refunded": "0.0000", "refunded_usd_micros": 0},
        },
    ),
    "expired in the queue": (
        Intent.full_refund(reason=ReasonCode.RESERVATION_EXPIRED),
        "run.refunded",
        {
            "status": "FAILED",
            "money_state": "REFUNDED",
            "reason_code": "RESERVATION_EXPIRED",
            "cost": {"used": "0.0000", "used_usd_micros": 0, "refunded": "0.0000", "refunded_usd_micros": 0},
        },
    ),
}


def told() -> list[WebhookMessage]:
    return list(WebhookMessage.objects.order_by("at"))


def entries_of(run: Run) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT amount_usd_micros FROM ledger_entries WHERE run_id = %s", [run.run_id])
        return [int(micros) for (micros,) in cursor.fetchall()]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("status", ["ENABLED", "PAUSED", "DISABLED"])
def test_hook_01_an_end_is_told_once_whatever_the_endpoints_status(end: str, status: str) -> None:
    intent, event, expected = ENDS[end]
    endpoint = hooks.an_endpoint(status=status, events=[event])
    run = gear.committed(intent=intent, tenant_id=endpoint.tenant_id)
    (message,) = told()
    assert (message.tenant_id, message.event) == (endpoint.tenant_id, event)
    assert message.key == f"run:{event}:{run.run_id}:{run.version}"
    assert message.payload == {
        "run_id": str(run.run_id),
        "version": run.version,
        "pack_type": "decision",
        "href": f"/v1/runs/{run.run_id}",
        "trace_id": run.trace_id,
        **expected,
    }


@pytest.mark.parametrize(
    "columns",
    [{"deleted_at": "2026-01-01T00:00:00Z"}, {"events": ["run.failed", "budget.low"]}],
    ids=["deleted", "other"],
)
def test_hook_01_nothing_is_told_where_no_endpoint_wants_it(columns: dict[str, Any]) -> None:
    endpoint = hooks.an_endpoint(**columns)
    hooks.an_endpoint()  # of another tenant
    run = gear.committed(tenant_id=endpoint.tenant_id)
    assert told() == []
    assert entries_of(run) == [-50_000]


@pytest.mark.parametrize("reason", FREES_ITS_KEY)
def test_hook_01_a_run_that_its_caller_never_got_tells_nothing(reason: ReasonCode) -> None:
    endpoint = hooks.an_endpoint()
    run = gear.committed(intent=Intent.full_refund(reason=reason), tenant_id=endpoint.tenant_id)
    assert run.idempotency_key is None
    assert told() == []


def test_hook_01_the_loser_of_a_commit_tells_nothing() -> None:
    endpoint = hooks.an_endpoint()
    run = gear.committed(tenant_id=endpoint.tenant_id)
    assert transitions.commit(claim=gear.claim_of(run), taken_micros=0) is LOST
    assert len(told()) == 1


def test_hook_01_a_failure_of_ours_says_what_was_given_back() -> None:
    endpoint = hooks.an_endpoint()
    Tenant.objects.filter(pk=endpoint.tenant_id).update(refund_own_failures=True)
    run = gear.committed(intent=gear.fee(), tenant_id=endpoint.tenant_id)
    (message,) = told()
    assert message.event == "run.failed"
    assert message.payload["cost"] == {
        "used": "0.0050",
        "used_usd_micros": 5_000,
        "refunded": "0.0050",
        "refunded_usd_micros": 5_000,
    }
    assert ledger.refund_of(endpoint.tenant_id, run.run_id) == 5_000


def a_dispute(*, own_failure: bool = False) -> Run:
    tenant = a_tenant()
    Tenant.objects.filter(pk=tenant.pk).update(refund_own_failures=own_failure)
    run = gear.committed(intent=gear.fee() if own_failure else gear.COMPLETED, tenant_id=tenant.tenant_id)
    gear.won(transitions.dispute(run_id=run.run_id, version=run.version, actor="operator:kim"))
    hooks.an_endpoint(tenant)
    return gear.row(run.run_id)


@pytest.mark.parametrize("fault", ["nobody's", "ours"])
def test_hook_01_a_dispute_upheld_is_told(fault: str) -> None:
    own_failure = fault == "ours"
    run = a_dispute(own_failure=own_failure)
    found = disputes.uphold_dispute(run_id=run.run_id, reason="it was right", actor="operator:kim")
    assert isinstance(found, Run)
    (message,) = told()
    assert message.key == f"run:run.upheld:{run.run_id}:{found.version}"
    assert message.payload["money_state"] == "SETTLED"
    assert message.payload["cost"]["used_usd_micros"] == (5_000 if own_failure else 50_000)
    assert message.payload["cost"]["refunded_usd_micros"] == (5_000 if own_failure else 0)


def test_hook_01_a_dispute_refunded_is_told_with_its_money(valkey: object) -> None:
    del valkey
    run = a_dispute()
    found = disputes.refund_dispute(run_id=run.run_id, reason="it was wrong", actor="operator:kim", approved_by="lee")
    assert isinstance(found, Run)
    (message,) = told()
    assert message.key == f"run:run.refunded:{run.run_id}:{found.version}"
    assert (message.payload["status"], message.payload["money_state"]) == ("COMPLETED", "REFUNDED")
    assert message.payload["cost"] == {
        "used": "0.0500",
        "used_usd_micros": 50_000,
        "refunded": "0.0500",
        "refunded_usd_micros": 50_000,
    }


def test_hook_01_a_dispute_that_is_not_resolved_tells_nothing() -> None:
    run = a_dispute()
    with transaction.atomic():
        gear.won(transitions.resolve(run_id=run.run_id, version=run.version, refunded=True, actor="kim"))
        transaction.set_rollback(True)
    assert told() == []
    assert gear.row(run.run_id).money_state == "DISPUTED"


def test_hook_01_a_retention_that_makes_a_tombstone_tells_nothing() -> None:
    endpoint = hooks.an_endpoint()
    gear.expired(tenant_id=endpoint.tenant_id)
    assert [message.event for message in told()] == ["run.completed"]


# No webhook can fail a commit of money, or make it wait.


def claimed_with(endpoint: WebhookEndpoint) -> Run:
    return gear.claimed(tenant_id=endpoint.tenant_id)


def commit(run: Run) -> Run:
    gear.won(transitions.commit(claim=gear.claim_of(run), taken_micros=gear.ACTUAL_MICROS))
    return gear.row(run.run_id)


def test_hook_01_a_key_that_is_taken_fails_no_commit() -> None:
    run = claimed_with(hooks.an_endpoint())
    WebhookMessage.objects.create(
        tenant_id="t_other", event="poison", key=f"run:run.completed:{run.run_id}:{run.version + 1}", payload={}
    )
    assert commit(run).money_state == "SETTLED"
    assert entries_of(run) == [-50_000]
    assert [message.event for message in told()] == ["poison"]


def test_hook_01_the_table_that_a_commit_writes_can_refuse_nothing_but_a_key() -> None:
    """A check, a foreign key or a trigger added to it could fail a commit: then this fails."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT contype::text, conname FROM pg_constraint WHERE conrelid = 'webhook_message'::regclass"
            " AND contype <> 'n' ORDER BY 1"
        )
        assert cursor.fetchall() == [("p", "webhook_message_pkey"), ("u", "webhook_message_key_unique")]
        cursor.execute("SELECT tgname FROM pg_trigger WHERE tgrelid = 'webhook_message'::regclass AND tgtype & 4 <> 0")
        assert cursor.fetchall() == []


LOCKS = {
    "rows": "SELECT FROM webhook_endpoint FOR UPDATE",
    "messages": "SELECT FROM webhook_message FOR UPDATE",
    "writers kept out": "LOCK TABLE webhook_endpoint IN SHARE ROW EXCLUSIVE MODE",
    "an index being made": "LOCK TABLE webhook_message IN SHARE UPDATE EXCLUSIVE MODE",
}


@pytest.mark.parametrize("what", LOCKS)
def test_hook_01_locks_on_webhooks_hold_up_no_commit(what: str) -> None:
    run = claimed_with(hooks.an_endpoint())
    hooks.a_message(run.tenant_id)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCKS[what])
        rival = OnAnotherConnection(lambda: commit(run))
        assert rival.answer().money_state == "SETTLED"


def test_hook_01_a_change_of_the_table_is_waited_for_and_then_the_commit_goes_through() -> None:
    """The one lock that readers wait for. A migration waits for it 5 s at most and has it for milliseconds; were it
    held for longer than a statement waits, the run stays claimed, and the reconciler commits it."""
    run = claimed_with(hooks.an_endpoint())
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE webhook_endpoint ALTER COLUMN reason SET STATISTICS 100")
        cursor.execute("LOCK TABLE webhook_endpoint IN ACCESS EXCLUSIVE MODE")
        rival = OnAnotherConnection(lambda: commit(run))
        wait_until(lambda: rival.is_done() or rival.waits_for_a_lock(), what="the commit to meet the lock")
        assert not rival.is_done()
    assert rival.answer().money_state == "SETTLED"
    assert entries_of(run) == [-50_000]
    assert len(told()) == 1
