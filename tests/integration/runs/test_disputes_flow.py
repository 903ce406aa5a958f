"""Disputes: who opens, who resolves, what goes back, and that it goes back once (DPP-58)."""

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
import redis as redis_library
from django.db import connection, transaction

from budget import entries, services
from budget.entries import Entered
from budget.models import LedgerEntry, PendingCredit
from budget.money import MAX_MICROS
from budget.rebuild import rebuild
from budget.verification import ledger_audit
from budget.verification.verify import Difference
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from runs import transitions
from runs.claims import Lost, Won
from runs.intents import Intent
from runs.models import Run, RunDispute
from runs.operators import disputes
from tests.gear.builders import runs as gear
from tests.gear.builders.money import standing_balance
from tests.gear.builders.tenants import a_tenant
from tests.gear.faults.rivals import OnAnotherConnection

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-58")]

FUNDS = 10_000_000
Resolve = Callable[..., Run | Refusal]


@pytest.fixture
def tenant_id(valkey: redis_library.Redis) -> str:
    tenant_id = a_tenant().tenant_id
    rebuild.rebuild_all()
    entered = entries.top_up(
        tenant_id=tenant_id, amount_micros=FUNDS, reference="first", reason="funds", actor="operator:kim"
    )
    assert isinstance(entered, Entered)
    return tenant_id


def ended(tenant_id: str, intent: Intent = gear.COMPLETED) -> Run:
    """A run that went the whole way, its money too."""
    run = gear.reserved(tenant_id=tenant_id)
    services.hold(tenant_id=tenant_id, run_id=str(run.run_id), reserved_micros=gear.RESERVED_MICROS, created_at_ms=1)
    gear.won(transitions.start(run_id=run.run_id, version=1, lease_token="l", actor="worker"))
    claimed = gear.won(
        transitions.claim_worked(run=gear.row(run.run_id), lease_token="l", token="t", intent=intent, actor="worker")
    )
    services.settle(tenant_id=tenant_id, run_id=str(run.run_id), charge_micros=intent.charge_micros)
    gear.won(transitions.commit(claim=claimed.claim, taken_micros=intent.charge_micros))
    return gear.row(run.run_id)


def opened(tenant_id: str) -> Run:
    run = disputes.open_dispute(run_id=ended(tenant_id).run_id, reason="wrong answer", actor="operator:kim")
    assert isinstance(run, Run)
    return run


@pytest.mark.contract("HRD-07")
def test_hrd_07_runs_and_ledger_agree_about_every_end(tenant_id: str) -> None:
    ended(tenant_id)
    ended(tenant_id, gear.fee(ReasonCode.PACK_FAILED))
    opened(tenant_id)
    disputes.uphold_dispute(run_id=opened(tenant_id).run_id, reason="it was right", actor="operator:kim")
    refunded = opened(tenant_id)
    disputes.refund_dispute(run_id=refunded.run_id, reason="it was wrong", actor="operator:kim")
    assert audited(tenant_id) == []
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE runs SET money_state = 'DISPUTED' WHERE run_id = %s", [refunded.pk])
    assert [(it.kind, it.expected_micros, it.found_micros) for it in audited(tenant_id)] == [
        ("REFUND_OF_ANOTHER_AMOUNT", 0, refunded.actual_cost_usd_micros)
    ]


def audited(tenant_id: str) -> list[Difference]:
    return [found for chunk in ledger_audit.audit_ledger(tenant_id) for found in chunk.differences]


def test_dpp_58_a_settled_run_is_disputed_with_who_and_why(tenant_id: str) -> None:
    run = opened(tenant_id)
    assert (run.status, run.money_state, run.last_actor) == ("COMPLETED", "DISPUTED", "operator:kim")
    step = RunDispute.objects.get()
    assert (step.run_id, step.version, step.step) == (run.run_id, run.version, "OPENED")
    assert (step.actor, step.reason) == ("operator:kim", "wrong answer")
    assert standing_balance(tenant_id) == FUNDS - gear.ACTUAL_MICROS


def test_dpp_58_an_upheld_charge_stands(tenant_id: str) -> None:
    run = disputes.uphold_dispute(run_id=opened(tenant_id).run_id, reason="the answer was right", actor="operator:lee")
    assert isinstance(run, Run)
    assert (run.money_state, run.last_actor) == ("SETTLED", "operator:lee")
    assert list(RunDispute.objects.values_list("step", "actor")) == [
        ("OPENED", "operator:kim"),
        ("UPHELD", "operator:lee"),
    ]
    assert standing_balance(tenant_id) == FUNDS - gear.ACTUAL_MICROS
    assert not LedgerEntry.objects.filter(kind="ADJUST").exists()


def test_dpp_58_a_refund_reaches_ledger_and_balance(tenant_id: str) -> None:
    run = disputes.refund_dispute(run_id=opened(tenant_id).run_id, reason="our mistake", actor="operator:lee")
    assert isinstance(run, Run)
    assert (run.money_state, run.actual_cost_usd_micros) == ("REFUNDED", gear.ACTUAL_MICROS)
    entry = LedgerEntry.objects.get(kind="ADJUST")
    assert (entry.tenant_id, entry.run_id, entry.amount_usd_micros) == (tenant_id, run.run_id, gear.ACTUAL_MICROS)
    assert (entry.reference, entry.reason, entry.actor) == (f"dispute:{run.run_id}", "our mistake", "operator:lee")
    assert standing_balance(tenant_id) == FUNDS
    assert not PendingCredit.objects.exists()
    assert RunDispute.objects.order_by("version").values_list("step", flat=True).last() == "REFUNDED"


def test_dpp_58_a_refund_that_the_tenants_money_has_no_room_for_changes_nothing(tenant_id: str) -> None:
    """Redis counts exactly up to 2^53 - 1; a ledger beyond it could not be rebuilt."""
    run = opened(tenant_id)
    room = MAX_MICROS - (FUNDS - gear.ACTUAL_MICROS)
    entries.top_up(
        tenant_id=tenant_id,
        amount_micros=room,
        reference="to the brim",
        reason="",
        actor="operator:kim",
        approved_by="operator:lee",
    )
    for _ in range(2):
        refusal = disputes.refund_dispute(run_id=run.run_id, reason="our mistake", actor="operator:lee")
        assert isinstance(refusal, Refusal)
        assert (refusal.reason, refusal.field) == (ReasonCode.CONFLICT, "run_id")
        assert (gear.row(run.run_id).money_state, gear.row(run.run_id).version) == ("DISPUTED", run.version)
        assert RunDispute.objects.get().step == "OPENED"
        assert not LedgerEntry.objects.filter(kind="ADJUST").exists()
        assert standing_balance(tenant_id) == MAX_MICROS
    entries.adjust_balance(
        tenant_id=tenant_id, amount_micros=-gear.ACTUAL_MICROS, reference="room", reason="room", actor="operator:kim"
    )
    answer = disputes.refund_dispute(run_id=run.run_id, reason="our mistake", actor="operator:lee")
    assert isinstance(answer, Run)
    assert (answer.money_state, standing_balance(tenant_id)) == ("REFUNDED", MAX_MICROS)


def test_dpp_58_a_refund_while_redis_is_closed_waits_in_the_ledger(tenant_id: str, valkey: redis_library.Redis) -> None:
    run = opened(tenant_id)
    valkey.flushall()
    answer = disputes.refund_dispute(run_id=run.run_id, reason="our mistake", actor="operator:lee")
    assert isinstance(answer, Run)
    assert answer.money_state == "REFUNDED"
    assert PendingCredit.objects.get().amount_usd_micros == gear.ACTUAL_MICROS
    rebuild.rebuild_all()
    assert standing_balance(tenant_id) == FUNDS
    entries.replay_pending(limit=10, older_than=timedelta())
    assert not PendingCredit.objects.exists()
    assert standing_balance(tenant_id) == FUNDS


def test_dpp_58_a_refunded_minimum_fee_goes_back_too(tenant_id: str) -> None:
    run = ended(tenant_id, gear.fee())
    disputes.open_dispute(run_id=run.run_id, reason="lost worker", actor="operator:kim")
    disputes.refund_dispute(run_id=run.run_id, reason="our mistake", actor="operator:kim")
    assert (gear.row(run.run_id).status, gear.row(run.run_id).money_state) == ("FAILED", "REFUNDED")
    assert standing_balance(tenant_id) == FUNDS


@pytest.mark.parametrize("resolve", [disputes.uphold_dispute, disputes.refund_dispute])
def test_dpp_58_what_is_not_disputed_is_not_resolved(tenant_id: str, resolve: Resolve) -> None:
    run = ended(tenant_id)
    before = gear.everything(run.run_id)
    answer = resolve(run_id=run.run_id, reason="none", actor="operator:kim")
    assert isinstance(answer, Refusal)
    assert answer == Refusal(ReasonCode.CONFLICT, "its money is SETTLED; open a dispute first", "run_id")
    assert gear.everything(run.run_id) == before
    assert standing_balance(tenant_id) == FUNDS - gear.ACTUAL_MICROS


@pytest.mark.parametrize("state", ["reserved", "working", "claimed", "disputed"])
def test_dpp_58_only_a_settled_run_is_disputed(tenant_id: str, state: str) -> None:
    run = getattr(gear, state)(tenant_id=tenant_id)
    before = gear.everything(run.run_id)
    answer = disputes.open_dispute(run_id=run.run_id, reason="wrong", actor="operator:kim")
    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.field) == (ReasonCode.CONFLICT, "run_id")
    assert answer.detail.endswith("only a settled charge is disputed")
    assert gear.everything(run.run_id) == before


@pytest.mark.parametrize("reason", ["", "   ", "x" * 201, "two\nlines"])
@pytest.mark.parametrize("use", [disputes.open_dispute, disputes.uphold_dispute, disputes.refund_dispute])
def test_dpp_58_a_reason_is_asked_for(tenant_id: str, use: Resolve, reason: str) -> None:
    run = ended(tenant_id)
    before = gear.everything(run.run_id)
    answer = use(run_id=run.run_id, reason=reason, actor="operator:kim")
    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.field) == (ReasonCode.VALIDATION_FAILED, "reason")
    assert gear.everything(run.run_id) == before


def test_dpp_58_an_unknown_run_is_refused(tenant_id: str) -> None:
    answer = disputes.open_dispute(run_id=uuid.uuid4(), reason="wrong", actor="operator:kim")
    assert isinstance(answer, Refusal)
    assert answer == Refusal(ReasonCode.NOT_FOUND, "there is no such run", "run_id")


@pytest.mark.parametrize("use", [disputes.open_dispute, disputes.uphold_dispute, disputes.refund_dispute])
def test_dpp_58_a_rival_between_reading_and_writing_makes_the_second_lose(
    tenant_id: str, use: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rival comes at the named call, after the row was read."""
    run = ended(tenant_id) if use is disputes.open_dispute else opened(tenant_id)
    name = "dispute" if use is disputes.open_dispute else "resolve"
    edge = getattr(transitions, name)
    seen = []

    def rivalled(**arguments: object) -> Won | Lost:
        monkeypatch.setattr(transitions, name, edge)
        rival = OnAnotherConnection(lambda: use(run_id=run.run_id, reason="first", actor="operator:rival"))
        assert isinstance(rival.answer(), Run)
        seen.append(gear.everything(run.run_id))
        outcome: Won | Lost = edge(**arguments)
        return outcome

    monkeypatch.setattr(transitions, name, rivalled)
    answer = use(run_id=run.run_id, reason="second", actor="operator:kim")
    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.field) == (ReasonCode.CONFLICT, "run_id")
    assert "changed meanwhile" in answer.detail
    assert gear.everything(run.run_id) == seen[0]
    refunded = use is disputes.refund_dispute
    assert standing_balance(tenant_id) == FUNDS - (0 if refunded else gear.ACTUAL_MICROS)
