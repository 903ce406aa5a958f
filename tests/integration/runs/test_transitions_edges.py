"""Each edge and its "does not" twin: who is refused changes nothing, not the row, not its history, not the ledger."""

import uuid
from typing import Any

import pytest

from dpp_project.constants import RETENTION_DAYS
from dpp_project.reasons import ReasonCode
from runs import timing, transitions
from runs.claims import LOST, Accepted, AlreadyAccepted, Claim, Claimed, Lease, Moved, Won
from runs.intents import Intent
from runs.models import Run, RunInputs
from runs.states import EDGES, MoneyState, Stage, Status
from tests.gear.builders import runs as gear
from tests.gear.builders.run_edges import CALLS, HOUR, STATES, WON_FROM, claim, ledger, ripe, seconds_from_now
from tests.gear.builders.tenants import a_tenant

pytestmark = pytest.mark.django_db


def test_transitions_every_edge_is_in_the_tables() -> None:
    assert set(CALLS) == set(WON_FROM) == (set(EDGES) - {"fence"}) | {"drop", "forget"}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("edge", CALLS)
def test_dpp_34_an_edge_is_won_from_its_states_and_leaves_all_others_untouched(edge: str, state: str) -> None:
    run = ripe(STATES[state]())
    before = gear.everything(run.run_id)
    outcome = CALLS[edge](run)
    if state in WON_FROM[edge]:
        assert isinstance(outcome, Won)
        assert gear.everything(run.run_id) != before
    else:
        assert outcome is LOST
        assert gear.everything(run.run_id) == before


@pytest.mark.parametrize("off_by", [-1, 1])
@pytest.mark.parametrize("edge", CALLS)
def test_dpp_34_another_version_loses_every_edge(edge: str, off_by: int) -> None:
    run = ripe(STATES[min(WON_FROM[edge])]())
    before = gear.everything(run.run_id)
    run.version += off_by
    assert CALLS[edge](run) is LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.parametrize("edge", [edge for edge in CALLS if edge not in {"drop", "forget"}])
def test_transitions_a_won_edge_is_lost_the_second_time(edge: str) -> None:
    run = ripe(STATES[min(WON_FROM[edge])]())
    gear.won(CALLS[edge](run))
    after = gear.everything(run.run_id)
    assert CALLS[edge](run) is LOST
    assert gear.everything(run.run_id) == after


@pytest.mark.parametrize("edge", [edge for edge in CALLS if edge not in {"drop", "forget"}])
def test_transitions_a_won_edge_adds_one_version_and_one_line_of_history_with_its_actor(edge: str) -> None:
    run = ripe(STATES[min(WON_FROM[edge])]())
    answer = CALLS[edge](run)
    after = gear.row(run.run_id)
    assert after.version == run.version + 1
    if after.finalize_stage == Stage.CLAIMED:
        assert answer == Claimed(Claim.stored(after, actor="test"))
    else:
        assert answer == Moved(after.version)
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
    assert transitions.drop(run_id=run.run_id, version=0) == Won()
    assert gear.everything(run.run_id) == {"run": [], "inputs": [], "history": [], "disputes": [], "entries": []}
    assert isinstance(gear.accept(tenant_id=run.tenant_id, idempotency_key="a-key-of-mine"), Accepted)


@pytest.mark.contract("DPP-08")
def test_dpp_08_a_resumed_row_is_neither_dropped_nor_reserved_by_who_had_it() -> None:
    run = gear.accepted()
    gear.won(transitions.resume(run_id=run.run_id, version=0, actor="api"))
    before = gear.everything(run.run_id)
    assert transitions.drop(run_id=run.run_id, version=0) is LOST
    assert transitions.reserve(run_id=run.run_id, version=0, actor="api") is LOST
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
    assert transitions.start(run_id=run.run_id, version=0, lease_token="mine", actor="worker") is LOST
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
    call = claim(transitions.claim_worked, gear.COMPLETED, lease_token="not-mine", token="another-claim")
    assert call(run) is LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-40")
def test_dpp_40_a_live_lease_is_not_reaped() -> None:
    run = gear.aged(gear.working(), lease_expires_at=-1)
    before = gear.everything(run.run_id)
    assert CALLS["claim_lease_expired"](run) is LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-41")
def test_dpp_41_a_run_younger_than_an_hour_is_not_swept() -> None:
    run = gear.aged(gear.reserved(), created_at=HOUR - 5)
    before = gear.everything(run.run_id)
    assert CALLS["claim_never_started"](run) is LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-44")
def test_dpp_44_a_submit_under_way_is_not_taken_for_abandoned() -> None:
    run = gear.aged(gear.accepted(), created_at=HOUR, updated_at=timing.ABANDONED_AFTER_SECONDS - 5)
    before = gear.everything(run.run_id)
    assert CALLS["claim_abandoned"](run) is LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-45")
def test_dpp_45_a_run_that_no_letter_names_is_not_refunded_as_dead() -> None:
    run = gear.reserved()
    before = gear.everything(run.run_id)
    assert CALLS["claim_dead_lettered"](run) is LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-27")
@pytest.mark.parametrize(("state", "intent"), [("reserved", gear.fee()), ("working", gear.REFUND)])
def test_dpp_27_a_cancel_that_saw_another_state_decides_nothing(state: str, intent: Intent) -> None:
    run = STATES[state]()
    before = gear.everything(run.run_id)
    assert claim(transitions.claim_canceled, intent)(run) is LOST
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-27")
def test_dpp_27_a_cancel_of_a_run_at_work_costs_the_minimum_fee() -> None:
    run = gear.working()
    gear.won(claim(transitions.claim_canceled, gear.fee(ReasonCode.CANCELED_BY_OWNER))(run))
    after = gear.row(run.run_id)
    assert (after.intent_charge_usd_micros, after.intent_reason_code) == (5_000, "CANCELED_BY_OWNER")
