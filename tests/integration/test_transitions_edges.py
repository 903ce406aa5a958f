"""Each edge and its "does not" twin: who is refused changes nothing, not the row, not its history, not the ledger."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from dpp_project.constants import RETENTION_DAYS
from dpp_project.http.reasons import ReasonCode
from runs import timing, transitions
from runs.intents import Intent
from runs.models import Run, RunHistory, RunInputs
from runs.states import EDGES, MoneyState, Stage, Status
from runs.transitions import Accepted, AlreadyAccepted, Lease, Outcome
from tests.gear import runs as gear
from tests.gear.tenants import a_tenant

pytestmark = pytest.mark.django_db

HOUR = 3_600
MINUTE = 60
STATES: dict[str, Callable[[], Run]] = {
    "accepted": gear.accepted,
    "reserved": gear.reserved,
    "working": gear.working,
    "claimed": gear.claimed,
    "committed": gear.committed,
    "disputed": gear.disputed,
    "expired": gear.expired,
}


def ledger(run: Run) -> list[tuple[str, int]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT kind, amount_usd_micros FROM ledger_entries WHERE run_id = %s ORDER BY kind DESC", [run.run_id]
        )
        return [(str(kind), int(micros)) for kind, micros in cursor.fetchall()]


def seconds_from_now(run: Run, column: str) -> float:
    """By the database's clock, as the edges measure."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT extract(epoch FROM {column} - clock_timestamp()) FROM runs WHERE run_id = %s",  # noqa: S608
            [run.run_id],
        )
        return float(cursor.fetchone()[0])


# Every edge as a call on a row, for the tables below. `good` is the state from which it is won.

Call = Callable[[Run], Outcome]


def on(edge: Callable[..., Outcome], **arguments: Any) -> Call:
    return lambda run: edge(run_id=run.run_id, version=run.version, **arguments)


def claim(edge: Callable[..., Outcome], intent: Intent, **arguments: Any) -> Call:
    return on(edge, token="another-claim", intent=intent, actor="test", **arguments)


CALLS: dict[str, Call] = {
    "drop": on(transitions.drop),
    "resume": on(transitions.resume, actor="test"),
    "reserve": on(transitions.reserve, actor="test"),
    "start": on(transitions.start, lease_token="another-lease", actor="test"),
    "claim_worked": claim(transitions.claim_worked, gear.COMPLETED, lease_token=gear.LEASE_TOKEN),
    "claim_lease_expired": claim(transitions.claim_lease_expired, gear.fee()),
    "claim_never_started": claim(transitions.claim_never_started, gear.REFUND),
    "claim_abandoned": claim(transitions.claim_abandoned, gear.REFUND),
    "claim_unsent": claim(transitions.claim_unsent, gear.REFUND),
    "claim_dead_lettered": claim(transitions.claim_dead_lettered, gear.REFUND),
    "claim_canceled": claim(transitions.claim_canceled, gear.REFUND),
    "retake": on(transitions.retake, token="another-claim", actor="test"),
    "reintend": on(transitions.reintend, token=gear.TOKEN, actor="test"),
    "commit": on(transitions.commit, token=gear.TOKEN, taken_micros=gear.ACTUAL_MICROS, actor="test"),
    "dispute": on(transitions.dispute, actor="test"),
    "resolve": on(transitions.resolve, refunded=False, actor="test"),
    "expire": on(transitions.expire, actor="test"),
    "forget": on(transitions.forget),
}

# The states each edge is won from, once every age and mark that it waits for is there.
WON_FROM: dict[str, set[str]] = {
    "drop": {"accepted"},
    "resume": {"accepted"},
    "reserve": {"accepted"},
    "start": {"reserved"},
    "claim_worked": {"working"},
    "claim_lease_expired": {"working"},
    "claim_never_started": {"reserved"},
    "claim_abandoned": {"accepted"},
    "claim_unsent": {"reserved"},
    "claim_dead_lettered": {"reserved"},
    "claim_canceled": {"reserved"},
    "retake": {"claimed"},
    "reintend": {"claimed"},
    "commit": {"claimed"},
    "dispute": {"committed", "expired"},
    "resolve": {"disputed"},
    "expire": {"committed", "disputed"},
    "forget": {"expired"},
}


def ripe(run: Run) -> Run:
    """Old in every way that an edge asks for."""
    ages = {"created_at": 2 * HOUR, "updated_at": 2 * HOUR, "retention_until": 400 * 86_400}
    if run.status == Status.PROCESSING:
        ages["lease_expires_at"] = 1
    if run.finalize_claimed_at:
        ages["finalize_claimed_at"] = HOUR
    if run.status == Status.QUEUED and run.money_state == MoneyState.RESERVED:
        ages["dead_lettered_at"] = 1
    return gear.aged(run, **ages)


def test_transitions_every_edge_is_in_the_tables() -> None:
    assert set(CALLS) == set(WON_FROM) == (set(EDGES) - {"fence"}) | {"drop", "forget"}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("edge", CALLS)
def test_dpp_34_an_edge_is_won_from_its_states_and_leaves_all_others_untouched(edge: str, state: str) -> None:
    run = ripe(STATES[state]())
    before = gear.everything(run.run_id)
    outcome = CALLS[edge](run)
    if state in WON_FROM[edge]:
        assert outcome is Outcome.WON
        assert gear.everything(run.run_id) != before
    else:
        assert outcome is Outcome.LOST
        assert gear.everything(run.run_id) == before


@pytest.mark.parametrize("off_by", [-1, 1])
@pytest.mark.parametrize("edge", CALLS)
def test_dpp_34_another_version_loses_every_edge(edge: str, off_by: int) -> None:
    run = ripe(STATES[min(WON_FROM[edge])]())
    before = gear.everything(run.run_id)
    run.version += off_by
    assert CALLS[edge](run) is Outcome.LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.parametrize("edge", [edge for edge in CALLS if edge not in {"drop", "forget"}])
def test_transitions_a_won_edge_is_lost_the_second_time(edge: str) -> None:
    run = ripe(STATES[min(WON_FROM[edge])]())
    assert CALLS[edge](run) is Outcome.WON
    after = gear.everything(run.run_id)
    assert CALLS[edge](run) is Outcome.LOST
    assert gear.everything(run.run_id) == after


@pytest.mark.parametrize("edge", [edge for edge in CALLS if edge not in {"drop", "forget"}])
def test_transitions_a_won_edge_adds_one_version_and_one_line_of_history_with_its_actor(edge: str) -> None:
    run = ripe(STATES[min(WON_FROM[edge])]())
    assert CALLS[edge](run) is Outcome.WON
    after = gear.row(run.run_id)
    assert after.version == run.version + 1
    assert after.updated_at > run.updated_at
    assert gear.timeline(run.run_id)[-1] == (
        after.version,
        after.status,
        after.money_state,
        after.finalize_stage,
        "test",
    )
    before, now = (
        (Status(one.status), MoneyState(one.money_state), Stage(one.finalize_stage) if one.finalize_stage else None)
        for one in (run, after)
    )
    assert (before, now) in EDGES[edge]


# accept and drop


@pytest.mark.contract("DPP-06")
def test_dpp_06_accept_inserts_row_and_inputs_in_one_statement(django_assert_num_queries: Any) -> None:
    tenant_id = a_tenant().tenant_id
    with django_assert_num_queries(1):
        answer = gear.accept(
            tenant_id=tenant_id, idempotency_key="a-key-of-mine", artifacts={"include_markdown": True}, inline=True
        )
    assert isinstance(answer, Accepted)
    run = gear.row(answer.run_id)
    assert (run.status, run.money_state, run.finalize_stage, run.version) == ("QUEUED", "NONE", None, 0)
    assert (run.tenant_id, run.idempotency_key, run.payload_hash) == (tenant_id, "a-key-of-mine", gear.PAYLOAD_HASH)
    assert (run.reservation_max_cost_usd_micros, run.minimum_fee_usd_micros) == (250_000, 5_000)
    assert (run.actual_cost_usd_micros, run.tokens_consumed, run.send_count) == (None, 0, 0)
    assert run.created_at == answer.created_at
    assert (run.retention_until - run.created_at).days == RETENTION_DAYS
    sent = RunInputs.objects.get(run=run)
    assert (sent.inputs, sent.artifacts) == ({"question": "What is held?"}, {"include_markdown": True})
    assert (sent.timebox_sec, sent.min_reliability_score, sent.inline) == (90, 0.8, True)
    assert gear.timeline(run.run_id) == [(0, "QUEUED", "NONE", None, "api")]


@pytest.mark.contract("DPP-06")
def test_dpp_06_accept_of_a_taken_key_answers_the_first_and_stores_nothing(django_assert_num_queries: Any) -> None:
    run = gear.reserved(idempotency_key="a-key-of-mine")
    before = gear.everything(run.run_id)
    with django_assert_num_queries(1):
        answer = gear.accept(tenant_id=run.tenant_id, idempotency_key="a-key-of-mine", payload_hash="c" * 64)
    assert answer == AlreadyAccepted(run.run_id, gear.PAYLOAD_HASH)
    assert gear.everything(run.run_id) == before
    assert Run.objects.count() == RunInputs.objects.count() == 1


@pytest.mark.contract("DPP-06")
def test_dpp_06_the_same_key_of_another_tenant_is_another_run() -> None:
    run = gear.accepted(idempotency_key="a-key-of-mine")
    assert isinstance(gear.accept(tenant_id=a_tenant().tenant_id, idempotency_key="a-key-of-mine"), Accepted)
    assert gear.row(run.run_id).version == 0


@pytest.mark.contract("DPP-08")
def test_dpp_08_drop_leaves_nothing_and_frees_the_key() -> None:
    run = gear.accepted(idempotency_key="a-key-of-mine")
    assert transitions.drop(run_id=run.run_id, version=0) is Outcome.WON
    assert gear.everything(run.run_id) == {"run": [], "inputs": [], "history": [], "disputes": [], "entries": []}
    assert isinstance(gear.accept(tenant_id=run.tenant_id, idempotency_key="a-key-of-mine"), Accepted)


@pytest.mark.contract("DPP-08")
def test_dpp_08_a_resumed_row_is_neither_dropped_nor_reserved_by_who_had_it() -> None:
    run = gear.accepted()
    gear.won(transitions.resume(run_id=run.run_id, version=0, actor="api"))
    before = gear.everything(run.run_id)
    assert transitions.drop(run_id=run.run_id, version=0) is Outcome.LOST
    assert transitions.reserve(run_id=run.run_id, version=0, actor="api") is Outcome.LOST
    assert gear.everything(run.run_id) == before


# reserve, start, renew


@pytest.mark.contract("DPP-43")
def test_dpp_43_reserve_sets_the_next_send(django_assert_num_queries: Any) -> None:
    run = gear.accepted()
    with django_assert_num_queries(1):
        gear.won(transitions.reserve(run_id=run.run_id, version=0, actor="api"))
    assert seconds_from_now(run, "next_send_at") == pytest.approx(timing.FIRST_SEND_AGAIN_SECONDS, abs=5)


@pytest.mark.contract("DPP-30")
def test_dpp_30_start_leases_the_run_by_the_databases_clock(clock: Any, django_assert_num_queries: Any) -> None:
    run = gear.reserved()
    clock.advance(seconds=86_400)
    with django_assert_num_queries(1):
        gear.won(transitions.start(run_id=run.run_id, version=1, lease_token="mine", actor="worker"))
    after = gear.row(run.run_id)
    assert (after.status, after.money_state, after.lease_token) == ("PROCESSING", "RESERVED", "mine")
    assert seconds_from_now(run, "lease_expires_at") == pytest.approx(120, abs=5)


@pytest.mark.contract("DPP-30")
def test_dpp_30_a_row_whose_money_is_not_held_is_not_started() -> None:
    run = gear.accepted()
    before = gear.everything(run.run_id)
    assert transitions.start(run_id=run.run_id, version=0, lease_token="mine", actor="worker") is Outcome.LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-31")
def test_dpp_31_renew_extends_many_leases_in_one_statement(django_assert_num_queries: Any) -> None:
    mine, too = (gear.aged(gear.working(), lease_expires_at=-10) for _ in range(2))
    trace = gear.timeline(mine.run_id)
    with django_assert_num_queries(1):
        held = transitions.renew(leases=[Lease(run.run_id, gear.LEASE_TOKEN) for run in (mine, too)])
    assert held == {mine.run_id, too.run_id}
    assert seconds_from_now(mine, "lease_expires_at") == pytest.approx(120, abs=5)
    assert gear.row(mine.run_id).version == mine.version
    assert gear.timeline(mine.run_id) == trace


@pytest.mark.contract("DPP-31")
@pytest.mark.parametrize(
    "state", [state for state in STATES if state != "working"] + ["working, expired", "working, another's"]
)
def test_dpp_31_renew_leaves_what_is_not_ours_or_over(state: str) -> None:
    run = STATES.get(state, gear.working)()
    if state == "working, expired":
        run = gear.aged(run, lease_expires_at=1)
    before = gear.everything(run.run_id)
    token = "not-mine" if "another" in state else gear.LEASE_TOKEN
    assert transitions.renew(leases=[Lease(run.run_id, token), Lease(uuid.uuid4(), token)]) == set()
    assert gear.everything(run.run_id) == before


def test_transitions_renew_of_nothing_asks_nothing(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert transitions.renew(leases=[]) == set()


# The claims


@pytest.mark.contract("DPP-34")
def test_dpp_34_a_claim_writes_the_whole_intent_and_moves_nothing_yet(django_assert_num_queries: Any) -> None:
    run = gear.working()
    with django_assert_num_queries(1):
        gear.won(CALLS["claim_worked"](run))
    after = gear.row(run.run_id)
    assert (after.status, after.money_state, after.finalize_stage) == ("PROCESSING", "RESERVED", "CLAIMED")
    assert after.finalize_token == "another-claim"
    assert seconds_from_now(run, "finalize_claimed_at") == pytest.approx(0, abs=5)
    assert (after.intent_status, after.intent_money_state) == ("COMPLETED", "SETTLED")
    assert (after.intent_charge_usd_micros, after.intent_reason_code) == (gear.ACTUAL_MICROS, None)
    assert (after.result_bucket, after.result_key, after.result_sha256) == (
        gear.POINTER.bucket,
        gear.POINTER.key,
        gear.POINTER.sha256,
    )
    assert (after.tokens_consumed, after.actual_cost_usd_micros) == (7, None)
    assert ledger(run) == []


@pytest.mark.contract("DPP-34")
def test_dpp_34_a_worker_without_the_lease_claims_nothing() -> None:
    run = gear.working()
    before = gear.everything(run.run_id)
    call = claim(transitions.claim_worked, gear.COMPLETED, lease_token="not-mine")
    assert call(run) is Outcome.LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-40")
def test_dpp_40_a_live_lease_is_not_reaped() -> None:
    run = gear.aged(gear.working(), lease_expires_at=-1)
    before = gear.everything(run.run_id)
    assert CALLS["claim_lease_expired"](run) is Outcome.LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-41")
def test_dpp_41_a_run_younger_than_an_hour_is_not_swept() -> None:
    run = gear.aged(gear.reserved(), created_at=HOUR - 5)
    before = gear.everything(run.run_id)
    assert CALLS["claim_never_started"](run) is Outcome.LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-44")
def test_dpp_44_a_submit_under_way_is_not_taken_for_abandoned() -> None:
    run = gear.aged(gear.accepted(), created_at=HOUR, updated_at=timing.ABANDONED_AFTER_SECONDS - 5)
    before = gear.everything(run.run_id)
    assert CALLS["claim_abandoned"](run) is Outcome.LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-45")
def test_dpp_45_a_run_that_no_letter_names_is_not_refunded_as_dead() -> None:
    run = gear.reserved()
    before = gear.everything(run.run_id)
    assert CALLS["claim_dead_lettered"](run) is Outcome.LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-27")
@pytest.mark.parametrize(("state", "intent"), [("reserved", gear.fee()), ("working", gear.REFUND)])
def test_dpp_27_a_cancel_that_saw_another_state_decides_nothing(state: str, intent: Intent) -> None:
    run = STATES[state]()
    before = gear.everything(run.run_id)
    assert claim(transitions.claim_canceled, intent)(run) is Outcome.LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-27")
def test_dpp_27_a_cancel_of_a_run_at_work_costs_the_minimum_fee() -> None:
    run = gear.working()
    gear.won(claim(transitions.claim_canceled, gear.fee(ReasonCode.CANCELED_BY_OWNER))(run))
    after = gear.row(run.run_id)
    assert (after.intent_charge_usd_micros, after.intent_reason_code) == (5_000, "CANCELED_BY_OWNER")


# From the claim to the end


@pytest.mark.contract("DPP-42")
def test_dpp_42_retake_keeps_the_intent_and_takes_the_token(django_assert_num_queries: Any) -> None:
    run = ripe(gear.claimed())
    with django_assert_num_queries(1):
        gear.won(CALLS["retake"](run))
    after = gear.row(run.run_id)
    assert after.finalize_token == "another-claim"
    assert seconds_from_now(run, "finalize_claimed_at") == pytest.approx(0, abs=5)
    for column in ("intent_status", "intent_money_state", "intent_charge_usd_micros", "result_key", "status"):
        assert getattr(after, column) == getattr(run, column)


@pytest.mark.contract("DPP-42")
def test_dpp_42_a_young_claim_is_not_taken_over() -> None:
    run = gear.aged(gear.claimed(), finalize_claimed_at=timing.RECONCILE_AFTER_SECONDS - 5)
    before = gear.everything(run.run_id)
    assert CALLS["retake"](run) is Outcome.LOST
    assert on(transitions.retake, token="t", held_token="not-mine", actor="test")(run) is Outcome.LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-53")
def test_dpp_53_a_finisher_takes_its_own_fenced_claim_again_at_once() -> None:
    run = gear.claimed()
    assert transitions.fence(tenant_id=run.tenant_id, actor="rebuild") == 1
    fenced = gear.row(run.run_id)
    gear.won(on(transitions.retake, token="mine-again", held_token=gear.TOKEN, actor="worker")(fenced))
    assert gear.row(run.run_id).finalize_token == "mine-again"


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
    assert CALLS["reintend"](run) is Outcome.LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-34")
@pytest.mark.parametrize("edge", ["commit", "reintend"])
def test_dpp_34_only_the_holder_of_the_claim_goes_on(edge: str) -> None:
    run = gear.aged(gear.claimed(), finalize_claimed_at=HOUR)
    gear.won(transitions.retake(run_id=run.run_id, version=run.version, token="new", actor="reconciler"))
    before = gear.everything(run.run_id)
    stale = gear.row(run.run_id)
    assert CALLS[edge](stale) is Outcome.LOST
    assert CALLS[edge](run) is Outcome.LOST
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
    gear.won(on(transitions.commit, token=gear.TOKEN, taken_micros=taken, actor="test")(run))
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
    assert CALLS["dispute"](run) is Outcome.LOST
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
    assert CALLS["expire"](run) is Outcome.LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-23")
def test_dpp_23_a_tombstone_stands_for_a_year() -> None:
    run = gear.aged(gear.expired(), retention_until=86_400 * 365 - 60)
    before = gear.everything(run.run_id)
    assert CALLS["forget"](run) is Outcome.LOST
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
    assert CALLS["forget"](run) is Outcome.LOST
    assert gear.everything(run.run_id) == before


# Beside the edges


@pytest.mark.contract("DPP-43")
@pytest.mark.parametrize(("seen", "minutes"), [(0, 5), (1, 10), (2, 20), (3, 20)])
def test_dpp_43_each_send_is_further_off_than_the_last(seen: int, minutes: int) -> None:
    run = gear.aged(gear.reserved(), next_send_at=1)
    Run.objects.filter(pk=run.pk).update(send_count=seen)
    trace = gear.timeline(run.run_id)
    assert transitions.postpone_send(run_id=run.run_id, send_count=seen) is Outcome.WON
    after = gear.row(run.run_id)
    assert (after.send_count, after.version) == (seen + 1, run.version)
    assert seconds_from_now(run, "next_send_at") == pytest.approx(minutes * MINUTE, abs=5)
    assert gear.timeline(run.run_id) == trace


@pytest.mark.contract("DPP-43")
@pytest.mark.parametrize("state", STATES)
def test_dpp_43_only_a_queued_run_whose_money_is_held_is_sent_again(state: str) -> None:
    run = gear.aged(STATES[state](), next_send_at=1)
    before = gear.everything(run.run_id)
    won = transitions.postpone_send(run_id=run.run_id, send_count=0) is Outcome.WON
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
    assert transitions.postpone_send(run_id=run.run_id, send_count=seen) is Outcome.LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-45")
@pytest.mark.parametrize("state", STATES)
def test_dpp_45_a_queued_run_is_marked_once(state: str) -> None:
    run = STATES[state]()
    before = gear.everything(run.run_id)
    first = transitions.mark_dead_lettered(run_id=run.run_id)
    assert first is (Outcome.WON if state == "reserved" else Outcome.LOST)
    assert transitions.mark_dead_lettered(run_id=run.run_id) is Outcome.LOST
    assert (gear.everything(run.run_id) != before) is (state == "reserved")
    assert gear.row(run.run_id).version == run.version


@pytest.mark.contract("DPP-55")
def test_dpp_55_a_fence_raises_what_stands_between_two_effects_and_nothing_else() -> None:
    runs = {state: make() for state, make in STATES.items()}
    untouched = {state: gear.everything(run.run_id) for state, run in runs.items()}
    assert transitions.fence(tenant_id=None, actor="rebuild") == 2
    for state, run in runs.items():
        if state in {"accepted", "claimed"}:
            assert gear.row(run.run_id).version == run.version + 1
            assert gear.timeline(run.run_id)[-1][-1] == "rebuild"
            assert CALLS["commit" if state == "claimed" else "reserve"](run) is Outcome.LOST
        else:
            assert gear.everything(run.run_id) == untouched[state]


@pytest.mark.contract("DPP-55")
def test_dpp_55_a_fence_of_one_tenant_leaves_the_others() -> None:
    run, other = gear.accepted(), gear.accepted()
    before = gear.everything(other.run_id)
    assert transitions.fence(tenant_id=run.tenant_id, actor="rebuild") == 1
    assert gear.everything(other.run_id) == before


def test_transitions_history_says_nothing_of_rows_that_are_gone() -> None:
    run = gear.accepted()
    gear.won(transitions.drop(run_id=run.run_id, version=0))
    assert not RunHistory.objects.filter(run_id=run.run_id).exists()
