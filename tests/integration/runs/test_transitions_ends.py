"""From the claim to the end and after it: takeover, commit with its ledger, disputes, tombstones, and who is woken."""

from typing import Any

import pytest
from django.db import connection

from dpp_project.reasons import ReasonCode
from runs import timing, transitions
from runs.claims import LOST, Accepted, Won
from runs.intents import Intent
from runs.models import Run, RunHistory, RunInputs
from runs.reads.for_budget import OpenRunsOfTheTable
from tests.gear.builders import runs as gear
from tests.gear.builders.run_edges import CALLS, HOUR, MINUTE, STATES, ledger, on, ripe, seconds_from_now

pytestmark = pytest.mark.django_db


@pytest.mark.contract("DPP-42")
def test_dpp_42_retake_keeps_the_intent_and_takes_the_token(django_assert_num_queries: Any) -> None:
    run = ripe(gear.claimed())
    with django_assert_num_queries(1):
        taken = gear.won(transitions.retake(run=run, actor="test"))
    after = gear.row(run.run_id)
    assert after.finalize_token == taken.claim.token != gear.TOKEN
    assert seconds_from_now(run, "finalize_claimed_at") == pytest.approx(0, abs=5)
    for column in ("intent_status", "intent_money_state", "intent_charge_usd_micros", "result_key", "status"):
        assert getattr(after, column) == getattr(run, column)


@pytest.mark.contract("DPP-42")
def test_dpp_42_a_young_claim_is_not_taken_over() -> None:
    run = gear.aged(gear.claimed(), finalize_claimed_at=timing.RECONCILE_AFTER_SECONDS - 5)
    before = gear.everything(run.run_id)
    assert CALLS["retake"](run) is LOST
    assert transitions.retake(run=run, actor="test", own_token="not-mine") is LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-53")
def test_dpp_53_a_finisher_takes_its_own_fenced_claim_again_at_once() -> None:
    run = gear.claimed()
    assert transitions.fence(run_ids=[run.run_id], actor="rebuild") == 1
    fenced = gear.row(run.run_id)
    retaken = gear.won(transitions.retake(run=fenced, actor="worker", own_token=gear.TOKEN))
    assert retaken.claim == gear.claim_of(gear.row(run.run_id))
    assert gear.row(run.run_id).finalize_token == gear.TOKEN


@pytest.mark.contract("DPP-42")
def test_dpp_42_reintend_turns_a_completion_into_the_minimum_fee() -> None:
    run = gear.claimed()
    gear.won(CALLS["reintend"](run))
    after = gear.row(run.run_id)
    assert (after.intent_status, after.intent_money_state) == ("FAILED", "SETTLED")
    assert (after.intent_charge_usd_micros, after.intent_reason_code) == (5_000, "RESULT_LOST")
    assert (after.result_bucket, after.result_key, after.result_sha256) == (None, None, None)
    assert after.finalize_token == gear.TOKEN


@pytest.mark.contract("DPP-42")
@pytest.mark.parametrize("intent", [gear.fee(), gear.REFUND])
def test_dpp_42_a_failure_is_not_decided_again(intent: Intent) -> None:
    run = gear.claimed(intent=intent)
    before = gear.everything(run.run_id)
    assert CALLS["reintend"](run) is LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-34")
@pytest.mark.parametrize("edge", ["commit", "reintend"])
def test_dpp_34_only_the_holder_of_the_claim_goes_on(edge: str) -> None:
    run = gear.aged(gear.claimed(), finalize_claimed_at=HOUR)
    gear.won(transitions.retake(run=run, actor="reconciler"))
    before = gear.everything(run.run_id)
    stale = gear.row(run.run_id)
    assert CALLS[edge](stale) is LOST
    assert CALLS[edge](run) is LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-34", "DPP-54")
def test_dpp_34_commit_writes_row_and_ledger_in_one_statement(django_assert_num_queries: Any) -> None:
    run = gear.claimed()
    with django_assert_num_queries(1):
        gear.won(CALLS["commit"](run))
    after = gear.row(run.run_id)
    assert (after.status, after.money_state, after.finalize_stage) == ("COMPLETED", "SETTLED", "COMMITTED")
    assert (after.actual_cost_usd_micros, after.last_error_reason_code) == (gear.ACTUAL_MICROS, None)
    assert after.idempotency_key == run.idempotency_key
    assert ledger(run) == [("CHARGE", -gear.ACTUAL_MICROS)]


@pytest.mark.contract("DPP-35")
def test_dpp_35_a_failure_is_charged_the_minimum_fee() -> None:
    run = gear.committed(intent=gear.fee())
    assert (run.status, run.money_state, run.last_error_reason_code) == ("FAILED", "SETTLED", "WORKER_TIMEOUT")
    assert run.actual_cost_usd_micros == 5_000
    assert ledger(run) == [("CHARGE", -5_000)]


@pytest.mark.contract("DPP-54")
def test_dpp_54_a_refund_leaves_no_entry() -> None:
    run = gear.committed(intent=gear.REFUND)
    assert (run.status, run.money_state, run.actual_cost_usd_micros) == ("FAILED", "REFUNDED", 0)
    assert ledger(run) == []


@pytest.mark.contract("DPP-42")
@pytest.mark.parametrize(
    ("intent", "taken", "actual", "entries"),
    [
        (gear.fee(), 50_000, 5_000, [("CHARGE", -50_000), ("ADJUST", 45_000)]),
        (gear.REFUND, 50_000, 0, [("CHARGE", -50_000), ("ADJUST", 50_000)]),
        (gear.COMPLETED, 5_000, 5_000, [("CHARGE", -5_000)]),
        (gear.COMPLETED, 0, 0, []),
    ],
)
def test_dpp_42_the_receipt_decides_what_was_taken(
    intent: Intent, taken: int, actual: int, entries: list[tuple[str, int]]
) -> None:
    run = gear.claimed(intent=intent)
    gear.won(transitions.commit(claim=gear.claim_of(run), taken_micros=taken))
    assert gear.row(run.run_id).actual_cost_usd_micros == actual
    assert ledger(run) == entries
    adjusted = [micros for kind, micros in entries if kind == "ADJUST"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT amount_usd_micros FROM pending_credits WHERE tenant_id = %s", [run.tenant_id])
        assert [micros for (micros,) in cursor.fetchall()] == adjusted


@pytest.mark.contract("DPP-06")
@pytest.mark.parametrize("reason", [ReasonCode.QUEUE_ENQUEUE_FAILED, ReasonCode.SUBMIT_ABANDONED])
def test_dpp_06_a_run_that_never_reached_its_caller_frees_its_key(reason: ReasonCode) -> None:
    run = gear.committed(intent=Intent.full_refund(reason=reason), idempotency_key="a-key-of-mine")
    assert run.idempotency_key is None
    assert isinstance(gear.accept(tenant_id=run.tenant_id, idempotency_key="a-key-of-mine"), Accepted)


@pytest.mark.contract("DPP-06")
@pytest.mark.parametrize(
    "reason", [one for one in ReasonCode if one.value not in {"QUEUE_ENQUEUE_FAILED", "SUBMIT_ABANDONED"}][-6:]
)
def test_dpp_06_every_other_end_keeps_the_key(reason: ReasonCode) -> None:
    run = gear.committed(intent=Intent.full_refund(reason=reason), idempotency_key="a-key-of-mine")
    assert run.idempotency_key == "a-key-of-mine"


# After the end


@pytest.mark.contract("DPP-58")
@pytest.mark.parametrize("refunded", [False, True])
def test_dpp_58_a_dispute_is_resolved_one_way_or_the_other(refunded: bool) -> None:  # noqa: FBT001
    run = gear.disputed()
    assert (run.status, run.money_state) == ("COMPLETED", "DISPUTED")
    gear.won(on(transitions.resolve, refunded=refunded, actor="operator:kim")(run))
    after = gear.row(run.run_id)
    assert after.money_state == ("REFUNDED" if refunded else "SETTLED")
    assert after.actual_cost_usd_micros == gear.ACTUAL_MICROS


@pytest.mark.contract("DPP-58")
def test_dpp_58_a_refunded_run_is_not_disputed() -> None:
    run = gear.committed(intent=gear.REFUND)
    before = gear.everything(run.run_id)
    assert CALLS["dispute"](run) is LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-23")
def test_dpp_23_a_tombstone_keeps_its_money_and_nothing_else() -> None:
    run = gear.aged(gear.committed(intent=gear.fee()), retention_until=1)
    gear.won(CALLS["expire"](run))
    after = gear.row(run.run_id)
    assert (after.status, after.money_state, after.finalize_stage) == ("EXPIRED", "SETTLED", "COMMITTED")
    assert (after.actual_cost_usd_micros, after.intent_status, after.intent_charge_usd_micros) == (
        5_000,
        "FAILED",
        5_000,
    )
    assert (after.idempotency_key, after.result_key, after.result_sha256, after.last_error_detail) == (None,) * 4
    assert not RunInputs.objects.filter(run=run).exists()
    assert gear.timeline(run.run_id) == [(5, "EXPIRED", "SETTLED", "COMMITTED", "test")]
    assert ledger(run) == [("CHARGE", -5_000)]
    assert isinstance(gear.accept(tenant_id=run.tenant_id, idempotency_key=run.idempotency_key), Accepted)


@pytest.mark.contract("DPP-23")
def test_dpp_23_within_its_retention_a_run_stays() -> None:
    run = gear.aged(gear.committed(), retention_until=-5)
    before = gear.everything(run.run_id)
    assert CALLS["expire"](run) is LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-23")
def test_dpp_23_a_tombstone_stands_for_a_year() -> None:
    run = gear.aged(gear.expired(), retention_until=86_400 * 365 - 60)
    before = gear.everything(run.run_id)
    assert CALLS["forget"](run) is LOST
    assert gear.everything(run.run_id) == before
    gear.won(CALLS["forget"](gear.aged(run, retention_until=86_400 * 365 + 60)))
    assert gear.everything(run.run_id)["run"] == gear.everything(run.run_id)["history"] == []
    assert ledger(run) == [("CHARGE", -gear.ACTUAL_MICROS)]


@pytest.mark.contract("DPP-23")
def test_dpp_23_a_disputed_tombstone_is_not_forgotten() -> None:
    run = gear.expired()
    gear.won(CALLS["dispute"](run))
    run = gear.aged(gear.row(run.run_id), retention_until=86_400 * 400)
    before = gear.everything(run.run_id)
    assert CALLS["forget"](run) is LOST
    assert gear.everything(run.run_id) == before


# Beside the edges


@pytest.mark.contract("DPP-43")
@pytest.mark.parametrize(("seen", "minutes"), [(0, 5), (1, 10), (2, 20), (3, 20)])
def test_dpp_43_each_send_is_further_off_than_the_last(seen: int, minutes: int) -> None:
    run = gear.aged(gear.reserved(), next_send_at=1)
    Run.objects.filter(pk=run.pk).update(send_count=seen)
    trace = gear.timeline(run.run_id)
    assert transitions.postpone_send(run_id=run.run_id, send_count=seen) == Won()
    after = gear.row(run.run_id)
    assert (after.send_count, after.version) == (seen + 1, run.version)
    assert seconds_from_now(run, "next_send_at") == pytest.approx(minutes * MINUTE, abs=5)
    assert gear.timeline(run.run_id) == trace


@pytest.mark.contract("DPP-43")
@pytest.mark.parametrize("state", STATES)
def test_dpp_43_only_a_queued_run_whose_money_is_held_is_sent_again(state: str) -> None:
    run = gear.aged(STATES[state](), next_send_at=1)
    before = gear.everything(run.run_id)
    won = transitions.postpone_send(run_id=run.run_id, send_count=0) == Won()
    assert won is (state == "reserved")
    assert (gear.everything(run.run_id) != before) is won


@pytest.mark.contract("DPP-43", "DPP-45")
@pytest.mark.parametrize("case", ["not due", "dead-lettered", "sent meanwhile"])
def test_dpp_43_a_send_that_is_not_ours_to_make_is_refused(case: str) -> None:
    run = gear.aged(gear.reserved(), next_send_at=-5 if case == "not due" else 1)
    if case == "dead-lettered":
        gear.won(transitions.mark_dead_lettered(run_id=run.run_id))
    before = gear.everything(run.run_id)
    seen = 1 if case == "sent meanwhile" else 0
    assert transitions.postpone_send(run_id=run.run_id, send_count=seen) is LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-45")
@pytest.mark.parametrize("state", STATES)
def test_dpp_45_a_queued_run_is_marked_once(state: str) -> None:
    run = STATES[state]()
    before = gear.everything(run.run_id)
    first = transitions.mark_dead_lettered(run_id=run.run_id)
    assert first == (Won() if state == "reserved" else LOST)
    assert transitions.mark_dead_lettered(run_id=run.run_id) is LOST
    assert (gear.everything(run.run_id) != before) is (state == "reserved")
    assert gear.row(run.run_id).version == run.version


@pytest.mark.contract("DPP-55")
def test_dpp_55_a_fence_raises_what_stands_between_two_effects_and_nothing_else() -> None:
    runs = {state: make() for state, make in STATES.items()}
    untouched = {state: gear.everything(run.run_id) for state, run in runs.items()}
    assert list(OpenRunsOfTheTable().fence(tenant_id=None)) == [2]
    for state, run in runs.items():
        if state in {"accepted", "claimed"}:
            assert gear.row(run.run_id).version == run.version + 1
            assert gear.timeline(run.run_id)[-1][-1] == "rebuild"
            assert CALLS["commit" if state == "claimed" else "reserve"](run) is LOST
        else:
            assert gear.everything(run.run_id) == untouched[state]


@pytest.mark.contract("DPP-55")
def test_dpp_55_a_fence_of_one_tenant_leaves_the_others() -> None:
    run, other = gear.accepted(), gear.accepted()
    before = gear.everything(other.run_id)
    assert list(OpenRunsOfTheTable().fence(tenant_id=run.tenant_id)) == [1]
    assert gear.everything(other.run_id) == before


def test_transitions_history_says_nothing_of_rows_that_are_gone() -> None:
    run = gear.accepted()
    gear.won(transitions.drop(run_id=run.run_id, version=0))
    assert not RunHistory.objects.filter(run_id=run.run_id).exists()
