"""A worker that is gone: its run ends at the minimum fee, and nothing that lives is touched (DPP-40)."""

from collections.abc import Callable

import pytest

from dpp_project.clock import FixedClock
from reaper import lease_reaper, metrics
from runs import transitions
from runs.claims import LOST, Lease, Lost, Won
from runs.models import Run
from tenants.models import Tenant
from tests.gear.builders import beat, recovery
from tests.gear.builders import runs as gear

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-40")]


def test_dpp_40_a_dead_workers_run_fails_at_the_minimum_fee(tenant: Tenant) -> None:
    run = recovery.lease_ran_out(tenant)
    expired = metrics.LEASES_EXPIRED._value.get()
    report = recovery.run_loop(lease_reaper.reap_leases)
    assert (report.seen, report.changed, report.errors) == (1, 1, 0)
    ended = gear.row(run.run_id)
    assert (ended.status, ended.money_state, ended.finalize_stage) == ("FAILED", "SETTLED", "COMMITTED")
    assert (ended.last_error_reason_code, ended.actual_cost_usd_micros) == ("WORKER_TIMEOUT", gear.FEE_MICROS)
    assert (ended.result_bucket, ended.result_key, ended.result_sha256) == (None, None, None)
    assert recovery.charges(run) == [-gear.FEE_MICROS]
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - gear.FEE_MICROS
    assert recovery.held_micros(tenant) == {}
    assert [step[4] for step in gear.timeline(run.run_id)] == ["api", "submit", "worker", "reaper", "reaper"]
    assert metrics.LEASES_EXPIRED._value.get() == expired + 1
    recovery.law_holds(tenant)


def lease_lives(tenant: Tenant) -> Run:
    return gear.aged(recovery.at_work(tenant), lease_expires_at=-1)


def claimed_with_an_old_lease(tenant: Tenant) -> Run:
    return gear.aged(recovery.worker_claimed(tenant), lease_expires_at=600)


def ended_with_an_old_lease(tenant: Tenant) -> Run:
    return gear.aged(recovery.past_retention(tenant), lease_expires_at=600)


@pytest.mark.parametrize(
    "kept",
    [lease_lives, claimed_with_an_old_lease, ended_with_an_old_lease, recovery.queued, recovery.waited_an_hour],
    ids=lambda make: make.__name__,
)
def test_dpp_40_what_is_not_a_dead_workers_is_not_touched(kept: Callable[[Tenant], Run], tenant: Tenant) -> None:
    run = kept(tenant)
    before = gear.everything(run.run_id), recovery.held_micros(tenant), recovery.balance_micros(tenant)
    report = recovery.run_loop(lease_reaper.reap_leases)
    assert (report.seen, report.changed, report.errors) == (0, 0, 0)
    assert (gear.everything(run.run_id), recovery.held_micros(tenant), recovery.balance_micros(tenant)) == before


def test_dpp_40_the_machines_own_clock_ends_nobody(clock: FixedClock, tenant: Tenant) -> None:
    run = lease_lives(tenant)
    clock.advance(seconds=3_600)
    assert recovery.run_loop(lease_reaper.reap_leases).seen == 0
    clock.advance(seconds=-7_200)
    gear.aged(run, lease_expires_at=1)
    assert recovery.run_loop(lease_reaper.reap_leases).changed == 1


def test_dpp_40_the_worker_that_claims_first_keeps_its_result(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovery.lease_ran_out(tenant)
    intent, edge = recovery.completed(run), transitions.claim_lease_expired

    def worker_first(**values: object) -> Won | Lost:
        gear.won(
            transitions.claim_worked(
                run=run,
                lease_token=gear.LEASE_TOKEN,
                token=gear.TOKEN,
                intent=intent,
                actor="worker",
            )
        )
        return edge(**values)  # type: ignore[arg-type]

    monkeypatch.setattr(transitions, "claim_lease_expired", worker_first)
    report = recovery.run_loop(lease_reaper.reap_leases)
    assert (report.changed, report.errors, report.detail) == (0, 0, {"lost": 1})
    kept = gear.row(run.run_id)
    assert (kept.finalize_token, kept.intent_status) == (gear.TOKEN, "COMPLETED")
    assert kept.result_key == (intent.result and intent.result.key)
    assert recovery.held_micros(tenant) == {str(run.run_id): gear.RESERVED_MICROS}
    recovery.law_holds(tenant)


@pytest.mark.contract("DPP-31")
def test_dpp_31_a_worker_that_comes_back_late_can_neither_renew_nor_claim(tenant: Tenant) -> None:
    run = recovery.lease_ran_out(tenant)
    intent = recovery.completed(run)
    assert recovery.run_loop(lease_reaper.reap_leases).changed == 1
    before = gear.everything(run.run_id)
    assert transitions.renew(leases=[Lease(run.run_id, gear.LEASE_TOKEN)]) == set()
    late = transitions.claim_worked(
        run=run,
        lease_token=gear.LEASE_TOKEN,
        token="late",
        intent=intent,
        actor="worker",
    )
    assert late is LOST
    assert gear.everything(run.run_id) == before


def test_dpp_40_the_longest_dead_come_first(tenant: Tenant) -> None:
    newer = gear.aged(recovery.lease_ran_out(tenant), lease_expires_at=5)
    older = gear.aged(recovery.lease_ran_out(tenant), lease_expires_at=500)
    assert recovery.run_loop(lease_reaper.reap_leases, limit=1).changed == 1
    assert (gear.row(older.run_id).status, gear.row(newer.run_id).status) == ("FAILED", "PROCESSING")


def test_dpp_40_it_comes_every_30_s_and_a_dead_workers_run_ends_with_the_first_pass_after_its_lease(
    tenant: Tenant,
) -> None:
    assert list(beat.seconds_of("lease_reaper", until=90)) == [0, 30, 60, 90]
    run = recovery.at_work(tenant)
    age = beat.age_after_passes(
        "lease_reaper", run, until=lambda: gear.row(run.run_id).status == "FAILED", within=120 + 2 * 30
    )
    assert age == 135
    assert recovery.charges(run) == [-gear.FEE_MICROS]
