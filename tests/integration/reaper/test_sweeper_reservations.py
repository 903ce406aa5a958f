"""A run that no worker ever started: everything goes back after an hour, to the micro (DPP-41)."""

from collections.abc import Callable

import pytest

from budget.redis import keys, scripts
from reaper import reservation_sweeper
from runs import transitions
from runs.claims import LOST, Lost, Won
from runs.models import Run
from tenants.models import Tenant
from tests.gear.builders import beat, recovery
from tests.gear.builders import runs as gear

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-41")]


@pytest.mark.parametrize("reserve_key", ["stands", "has expired"])
def test_dpp_41_everything_goes_back_though_the_reserve_key_is_gone(reserve_key: str, tenant: Tenant) -> None:
    run = recovery.waited_an_hour(tenant)
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - gear.RESERVED_MICROS
    if reserve_key == "has expired":
        assert scripts.shared_scripts().client.delete(keys.reserve_key(str(run.run_id))) == 1
    report = recovery.run_loop(reservation_sweeper.sweep_reservations)
    assert (report.seen, report.changed, report.errors) == (1, 1, 0)
    ended = gear.row(run.run_id)
    assert (ended.status, ended.money_state, ended.actual_cost_usd_micros) == ("FAILED", "REFUNDED", 0)
    assert (ended.last_error_reason_code, ended.finalize_stage) == ("RESERVATION_EXPIRED", "COMMITTED")
    assert ended.idempotency_key == run.idempotency_key
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS
    assert (recovery.held_micros(tenant), recovery.charges(run)) == ({}, [])
    recovery.law_holds(tenant)


def not_yet_an_hour(tenant: Tenant) -> Run:
    return gear.aged(recovery.queued(tenant), created_at=3_590)


def started_after_an_hour(tenant: Tenant) -> Run:
    return gear.aged(recovery.at_work(tenant), created_at=7_200)


def claimed_while_queued(tenant: Tenant) -> Run:
    run = recovery.waited_an_hour(tenant)
    gear.won(transitions.claim_canceled(run=run, intent=gear.REFUND, actor="api"))
    return gear.row(run.run_id)


def never_held(tenant: Tenant) -> Run:
    return gear.aged(recovery.unmarked(tenant), created_at=7_200)


def ended_long_ago(tenant: Tenant) -> Run:
    return gear.aged(recovery.past_retention(tenant), created_at=7_200)


@pytest.mark.parametrize(
    "kept",
    [not_yet_an_hour, started_after_an_hour, claimed_while_queued, never_held, ended_long_ago],
    ids=lambda make: make.__name__,
)
def test_dpp_41_what_is_under_way_or_ended_is_not_touched(kept: Callable[[Tenant], Run], tenant: Tenant) -> None:
    run = kept(tenant)
    before = gear.everything(run.run_id), recovery.held_micros(tenant), recovery.balance_micros(tenant)
    report = recovery.run_loop(reservation_sweeper.sweep_reservations)
    assert (report.seen, report.changed, report.errors) == (0, 0, 0)
    assert (gear.everything(run.run_id), recovery.held_micros(tenant), recovery.balance_micros(tenant)) == before


def test_dpp_41_a_worker_that_starts_first_keeps_the_run(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    run, edge = recovery.waited_an_hour(tenant), transitions.claim_never_started

    def worker_first(**values: object) -> Won | Lost:
        gear.won(
            transitions.start(run_id=run.run_id, version=run.version, lease_token=gear.LEASE_TOKEN, actor="worker")
        )
        return edge(**values)  # type: ignore[arg-type]

    monkeypatch.setattr(transitions, "claim_never_started", worker_first)
    report = recovery.run_loop(reservation_sweeper.sweep_reservations)
    assert (report.changed, report.detail) == (0, {"lost": 1})
    assert gear.row(run.run_id).status == "PROCESSING"
    assert recovery.held_micros(tenant) == {str(run.run_id): gear.RESERVED_MICROS}


def test_dpp_41_a_message_that_comes_later_starts_nothing(tenant: Tenant) -> None:
    run = recovery.waited_an_hour(tenant)
    assert recovery.run_loop(reservation_sweeper.sweep_reservations).changed == 1
    for version in (run.version, gear.row(run.run_id).version):
        late = transitions.start(run_id=run.run_id, version=version, lease_token="late", actor="worker")
        assert late is LOST


def test_dpp_41_a_dead_lettered_run_is_swept_like_any_other(tenant: Tenant) -> None:
    run = recovery.waited_an_hour(tenant)
    gear.won(transitions.mark_dead_lettered(run_id=run.run_id))
    assert recovery.run_loop(reservation_sweeper.sweep_reservations).changed == 1
    assert gear.row(run.run_id).money_state == "REFUNDED"


def test_dpp_41_it_comes_each_minute_and_ends_a_run_that_waited_an_hour(tenant: Tenant) -> None:
    assert list(beat.seconds_of("reservation_sweeper", until=180)) == [0, 60, 120, 180]
    run = recovery.queued(tenant)
    age = beat.age_after_passes(
        "reservation_sweeper", run, until=lambda: gear.row(run.run_id).money_state == "REFUNDED", within=3_660
    )
    assert age == 3_645
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS
