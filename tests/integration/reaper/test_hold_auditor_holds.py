"""Holds and runs that do not fit each other are found and made right, to the micro (DPP-44)."""

import threading
import uuid
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from budget import jobs as budget_jobs
from budget import services
from budget.outcomes import Held, RunClosed
from budget.rebuild import rebuild
from budget.redis import keys, scripts
from budget.verification import stray_holds, verify
from budget.verification.verify import Verdict
from dpp_project.jobs import runner
from dpp_project.jobs.runner import PassOutcome
from reaper import hold_auditor, metrics
from reaper import jobs as reaper_jobs
from reaper.dashboard import recovery_panel
from runs import transitions
from runs.claims import LOST, Claim, Lost, Won
from runs.finish import finalization
from runs.models import Run
from runs.reads.for_budget import OpenRunsOfTheTable, created_at_ms
from tenants.models import Tenant
from tests.gear.builders import beat, recovery
from tests.gear.builders import runs as gear

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-44")]


# Submits that died.


@pytest.mark.contract("DPP-06")
def test_dpp_44_an_abandoned_submit_ends_and_its_hold_goes_back(tenant: Tenant) -> None:
    run = recovery.abandoned(tenant)
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - gear.RESERVED_MICROS
    assert recovery.run_loop(hold_auditor.audit_holds).changed == 1
    ended = gear.row(run.run_id)
    assert (ended.status, ended.money_state, ended.actual_cost_usd_micros) == ("FAILED", "REFUNDED", 0)
    assert (ended.last_error_reason_code, ended.idempotency_key) == ("SUBMIT_ABANDONED", None)
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS
    recovery.law_holds(tenant)


def test_dpp_44_a_submit_that_comes_back_too_late_can_neither_hold_nor_go_on(tenant: Tenant) -> None:
    run = gear.aged(gear.accepted(tenant_id=tenant.tenant_id), updated_at=61)
    assert recovery.run_loop(hold_auditor.audit_holds).changed == 1
    late = services.hold(
        tenant_id=tenant.tenant_id,
        run_id=str(run.run_id),
        reserved_micros=gear.RESERVED_MICROS,
        created_at_ms=created_at_ms(run.created_at),
    )
    assert late == RunClosed(charge_micros=0)
    assert transitions.reserve(run_id=run.run_id, version=run.version, actor="submit") is LOST
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS
    recovery.law_holds(tenant)


def test_dpp_44_a_submit_that_marks_its_money_at_the_last_moment_keeps_its_hold(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is lost, so nothing goes back, and there is nothing to be made right after it."""
    run, claim = recovery.abandoned(tenant), transitions.claim_abandoned

    def at_the_last_moment(**values: Any) -> Won | Lost:
        gear.won(transitions.reserve(run_id=run.run_id, version=run.version, actor="submit"))
        return claim(**values)

    monkeypatch.setattr(transitions, "claim_abandoned", at_the_last_moment)
    report = recovery.run_loop(hold_auditor.audit_holds)
    assert (report.seen, report.changed, report.errors) == (1, 0, 0)
    assert dict(report.detail) == {"lost": 1, "tenants compared": 1}
    assert recovery.held_micros(tenant) == {str(run.run_id): gear.RESERVED_MICROS}
    recovery.law_holds(tenant)


def a_minute_not_over(tenant: Tenant) -> Run:
    return gear.aged(recovery.unmarked(tenant), updated_at=55)


@pytest.mark.parametrize(
    "kept",
    [
        a_minute_not_over,
        recovery.queued,
        recovery.lease_ran_out,
        recovery.left_claimed,
        recovery.waited_an_hour,
        recovery.past_retention,
    ],
    ids=lambda make: make.__name__,
)
def test_dpp_44_what_fits_is_not_touched(kept: Callable[[Tenant], Run], tenant: Tenant) -> None:
    run = kept(tenant)
    before = gear.everything(run.run_id), recovery.held_micros(tenant), recovery.balance_micros(tenant)
    report = recovery.run_loop(hold_auditor.audit_holds)
    assert (report.changed, report.errors) == (0, 0)
    assert (gear.everything(run.run_id), recovery.held_micros(tenant), recovery.balance_micros(tenant)) == before


# Holds that do not fit.


def hold_of_no_run(tenant: Tenant) -> None:
    outcome = services.hold(
        tenant_id=tenant.tenant_id, run_id=str(uuid.uuid4()), reserved_micros=77_777, created_at_ms=1
    )
    assert isinstance(outcome, Held)


def hold_of_an_ended_run(tenant: Tenant) -> None:
    run = recovery.worker_claimed(tenant)
    gear.won(transitions.commit(claim=gear.claim_of(run, actor="a fault"), taken_micros=50_000))


def hold_gone(tenant: Tenant) -> None:
    run = recovery.queued(tenant)
    client = scripts.shared_scripts().client
    assert client.hdel(keys.holds_key(tenant.tenant_id), str(run.run_id)) == 1
    client.delete(keys.reserve_key(str(run.run_id)))


def hold_of_another_amount(tenant: Tenant) -> None:
    run = recovery.queued(tenant)
    scripts.shared_scripts().client.hincrby(keys.holds_key(tenant.tenant_id), str(run.run_id), -1)


def hold_that_is_a_word(tenant: Tenant) -> None:
    run = recovery.queued(tenant)
    scripts.shared_scripts().client.hset(keys.holds_key(tenant.tenant_id), str(run.run_id), "abc")


def word_without_a_run(tenant: Tenant) -> None:
    scripts.shared_scripts().client.hset(keys.holds_key(tenant.tenant_id), str(uuid.uuid4()), "abc")


def holds_that_are_no_hash(tenant: Tenant) -> None:
    scripts.shared_scripts().client.set(keys.holds_key(tenant.tenant_id), "x")


FAULTS = (
    hold_of_no_run,
    hold_of_an_ended_run,
    hold_gone,
    hold_of_another_amount,
    hold_that_is_a_word,
    word_without_a_run,
    holds_that_are_no_hash,
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_dpp_44_what_does_not_fit_is_made_right_to_the_micro(fault: Callable[[Tenant], None], tenant: Tenant) -> None:
    fine = recovery.queued(tenant)
    fault(tenant)
    mended = metrics.HOLDS_MENDED._value.get()
    assert verify.verify_tenant_money(tenant.tenant_id).verdict is Verdict.DIFFERS
    assert recovery.run_loop(hold_auditor.audit_holds).changed == 1
    recovery.law_holds(tenant)
    open_runs = Run.objects.filter(tenant=tenant, money_state="RESERVED")
    assert recovery.held_micros(tenant) == {str(run.run_id): gear.RESERVED_MICROS for run in open_runs}
    charged = sum(micros for run in Run.objects.filter(tenant=tenant) for micros in recovery.charges(run))
    held = gear.RESERVED_MICROS * open_runs.count()
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS + charged - held
    assert str(fine.run_id) in recovery.held_micros(tenant)
    assert metrics.HOLDS_MENDED._value.get() == mended + 1
    assert recovery.run_loop(hold_auditor.audit_holds).changed == 0


@pytest.mark.contract("HRD-04")
def test_hrd_04_holds_that_cannot_be_read_keep_no_tenant_from_being_compared(tenant: Tenant) -> None:
    of_another_type, drifted = recovery.funded(), recovery.funded()
    hold_that_is_a_word(tenant)
    recovery.queued(of_another_type)
    holds_that_are_no_hash(of_another_type)
    hold_gone(drifted)
    report = recovery.run_loop(hold_auditor.audit_holds)
    assert (report.changed, report.errors, report.detail["tenants compared"]) == (3, 0, 3)
    for each in (tenant, of_another_type, drifted):
        recovery.law_holds(each)
        assert list(recovery.held_micros(each).values()) == [gear.RESERVED_MICROS]
        assert recovery.balance_micros(each) == recovery.FUNDS_MICROS - gear.RESERVED_MICROS
    assert recovery.run_loop(hold_auditor.audit_holds).changed == 0


@pytest.mark.contract("HRD-04")
def test_hrd_04_holds_of_a_tenant_at_rest_that_are_no_hash_are_dropped(tenant: Tenant) -> None:
    holds_that_are_no_hash(tenant)
    assert recovery.run_loop(hold_auditor.audit_holds).changed == 1
    assert (recovery.held_micros(tenant), recovery.balance_micros(tenant)) == ({}, recovery.FUNDS_MICROS)


def never_still(monkeypatch: pytest.MonkeyPatch, tenant: Tenant) -> None:
    """Its money moves whenever its books are read, which takes longer than it may be closed for."""
    client, real = scripts.shared_scripts().client, verify.read_books

    def read(*asked: Any) -> Any:
        client.delete(keys.gate_key(tenant.tenant_id))  # as its expiry does
        client.incr(keys.seq_key(tenant.tenant_id))  # as every script does
        return real(*asked)

    monkeypatch.setattr(verify, "read_books", read)


@pytest.mark.contract("HRD-04")
@pytest.mark.parametrize("fault", [hold_of_no_run, hold_of_an_ended_run], ids=lambda fault: fault.__name__)
def test_hrd_04_a_stray_hold_of_a_tenant_that_never_stands_still_goes_back(
    fault: Callable[[Tenant], None], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = recovery.queued(tenant)
    fault(tenant)
    mended = metrics.HOLDS_MENDED._value.get()
    with monkeypatch.context() as patch:
        never_still(patch, tenant)
        assert verify.verify_tenant_money(tenant.tenant_id).verdict is Verdict.UNSETTLED
        assert recovery.run_loop(hold_auditor.preview_auditing_holds).changed == 1
        report = recovery.run_loop(hold_auditor.audit_holds)
    assert (report.changed, report.detail["tenants rebuilt"]) == (1, 1)
    assert metrics.HOLDS_MENDED._value.get() == mended + 1
    assert recovery.held_micros(tenant) == {str(fine.run_id): gear.RESERVED_MICROS}
    recovery.law_holds(tenant)


def test_hrd_04_of_a_tenant_that_never_stands_still_what_fits_is_not_touched(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs at every step of their life, and one that ends between the looks at its hold and at its row."""
    kept = [recovery.unmarked(tenant), recovery.queued(tenant), recovery.at_work(tenant), recovery.left_claimed(tenant)]
    ends = recovery.at_work(tenant)
    real = OpenRunsOfTheTable.still_open

    def one_ends_first(runs: OpenRunsOfTheTable, *, run_ids: Collection[str]) -> Collection[str]:
        claim = gear.won(
            transitions.claim_worked(
                run=gear.row(ends.run_id),
                lease_token=gear.LEASE_TOKEN,
                token="t",
                intent=recovery.completed(ends),
                actor="worker",
            )
        ).claim
        assert isinstance(finalization.finish_claim(claim), finalization.Committed)
        return real(runs, run_ids=run_ids)

    monkeypatch.setattr(OpenRunsOfTheTable, "still_open", one_ends_first)
    seen = stray_holds.proof_of_single_holds(tenant.tenant_id)
    assert (seen.verdict, seen.differences) == (Verdict.UNSETTLED, ())
    assert {str(run.run_id) for run in kept} <= recovery.held_micros(tenant).keys()


def test_hrd_04_a_tenant_that_is_being_rebuilt_is_not_looked_at(tenant: Tenant) -> None:
    hold_of_no_run(tenant)
    money = scripts.shared_scripts()
    assert stray_holds.proof_of_single_holds(tenant.tenant_id).verdict is Verdict.DIFFERS
    token = money.gate.close_tenant(money.client, tenant.tenant_id)
    assert stray_holds.proof_of_single_holds(tenant.tenant_id).verdict is Verdict.UNSETTLED
    assert money.gate.open_tenant(money.client, tenant.tenant_id, token)


def test_dpp_44_one_tenants_fault_leaves_the_others_money_alone(tenant: Tenant) -> None:
    other = recovery.funded()
    recovery.queued(other)
    before = scripts.shared_scripts().client.get(keys.seq_key(other.tenant_id))
    hold_gone(tenant)
    assert recovery.run_loop(hold_auditor.audit_holds).changed == 1
    assert scripts.shared_scripts().client.get(keys.seq_key(other.tenant_id)) == before


@pytest.mark.contract("HRD-04")
@pytest.mark.parametrize("wrong_by", [5, -recovery.FUNDS_MICROS, -recovery.FUNDS_MICROS - 7])
def test_hrd_04_a_balance_that_alone_is_wrong_is_made_right(wrong_by: int, tenant: Tenant) -> None:
    recovery.queued(tenant)
    scripts.shared_scripts().client.incrby(keys.balance_key(tenant.tenant_id), wrong_by)
    mended, holds_mended = metrics.BALANCES_MENDED._value.get(), metrics.HOLDS_MENDED._value.get()
    report = recovery.run_loop(hold_auditor.audit_holds)
    assert (report.changed, report.errors) == (1, 0)
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - gear.RESERVED_MICROS
    recovery.law_holds(tenant)
    assert (metrics.BALANCES_MENDED._value.get(), metrics.HOLDS_MENDED._value.get()) == (mended + 1, holds_mended)


@pytest.mark.contract("HRD-04")
def test_hrd_04_an_orphan_hold_of_a_tenant_without_runs_is_given_back(tenant: Tenant) -> None:
    hold_of_no_run(tenant)
    assert recovery.run_loop(hold_auditor.audit_holds).changed == 1
    assert (recovery.held_micros(tenant), recovery.balance_micros(tenant)) == ({}, recovery.FUNDS_MICROS)


@pytest.mark.contract("HRD-04")
def test_hrd_04_a_tenant_without_runs_and_holds_is_repaired_when_the_proof_named_it(tenant: Tenant) -> None:
    recovery.queued(recovery.funded())
    scripts.shared_scripts().client.incrby(keys.balance_key(tenant.tenant_id), 5)
    assert recovery.run_loop(hold_auditor.audit_holds).changed == 0
    (proof,) = [job for job in budget_jobs.JOBS if job.name == "money_verify"]
    assert runner.run_job_pass(proof).outcome is PassOutcome.DONE
    assert recovery.run_loop(hold_auditor.audit_holds).changed == 1
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS


@pytest.mark.contract("HRD-04")
@pytest.mark.parametrize("why", ["Busy", "RebuildFailed"])
def test_hrd_04_what_cannot_be_made_right_is_said_loudly(
    why: str, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_gone(tenant)
    before = metrics.NOT_MENDED.labels(why)._value.get()

    def cannot(_tenant_id: str) -> rebuild.Busy:
        if why == "Busy":
            return rebuild.Busy()
        raise rebuild.RebuildFailed("superseded 5 times")

    with monkeypatch.context() as patch:
        patch.setattr(rebuild, "rebuild_tenant", cannot)
        (job,) = [job for job in reaper_jobs.JOBS if job.name == "hold_auditor"]
        report = runner.run_job_pass(job).report
    assert report is not None
    assert (report.changed, report.errors, report.detail[f"not mended: {why}"]) == (0, why != "Busy", 1)
    assert metrics.NOT_MENDED.labels(why)._value.get() == before + 1
    assert [it.value for it in recovery_panel().figures if it.label == "Wrong money not mended"] == [f"1 ({why})"]
    assert verify.verify_tenant_money(tenant.tenant_id).verdict is Verdict.DIFFERS
    assert recovery.run_loop(hold_auditor.audit_holds).changed == 1


def test_dpp_44_a_tenant_whose_gate_is_closed_waits(tenant: Tenant) -> None:
    hold_gone(tenant)
    money = scripts.shared_scripts()
    money.gate.close_tenant(money.client, tenant.tenant_id)
    assert recovery.run_loop(hold_auditor.audit_holds).changed == 0
    rebuild.rebuild_tenant(tenant.tenant_id)
    recovery.law_holds(tenant)


def test_dpp_44_under_load_it_sees_no_fault_where_there_is_none(tenant: Tenant) -> None:
    stop, errors = threading.Event(), []

    def work() -> None:
        try:
            while not stop.is_set():
                finalization.finish_claim(
                    Claim.stored(recovery.worker_claimed(tenant, intent=gear.fee()), actor="worker")
                )
        except BaseException as error:
            errors.append(error)
            raise
        finally:
            connection.close()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        reports = [recovery.run_loop(hold_auditor.audit_holds) for _ in range(15)]
    finally:
        stop.set()
        for worker in workers:
            worker.join(30)
    assert errors == []
    assert [report.changed for report in reports] == [0] * 15
    assert Run.objects.filter(tenant=tenant, finalize_stage="COMMITTED").count() > 15
    recovery.law_holds(tenant)


def test_dpp_44_more_tenants_than_one_pass_takes_have_their_turn(tenant: Tenant) -> None:
    tenants = [tenant, recovery.funded(), recovery.funded()]
    for each in tenants:
        hold_gone(each)
    minute = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    for passed in range(3):
        report = hold_auditor.audit_holds(now=minute + timedelta(minutes=passed), limit=1)
        assert (report.seen, report.changed, report.detail["tenants compared"]) == (1, 1, 1)
    for each in tenants:
        recovery.law_holds(each)


def test_dpp_44_a_tenant_without_runs_and_holds_costs_nothing(tenant: Tenant) -> None:
    recovery.queued(recovery.funded())
    assert recovery.run_loop(hold_auditor.audit_holds).detail == {"tenants compared": 1}


def an_unmarked_submit(tenant: Tenant) -> Run:
    return gear.aged(recovery.unmarked(tenant), updated_at=0)


def a_run_beside(fault: Callable[[Tenant], None]) -> Callable[[Tenant], Run]:
    def make(tenant: Tenant) -> Run:
        run = recovery.queued(tenant)
        fault(tenant)
        return run

    make.__name__ = fault.__name__
    return make


@pytest.mark.parametrize(
    ("happens", "found_at"),
    [(an_unmarked_submit, 105), (a_run_beside(hold_of_no_run), 45), (a_run_beside(hold_gone), 45)],
    ids=lambda it: it.__name__ if callable(it) else "",
)
def test_dpp_44_it_comes_each_minute_and_makes_each_fault_right_within_two(
    happens: Callable[[Tenant], Run], found_at: int, tenant: Tenant
) -> None:
    assert list(beat.seconds_of("hold_auditor", until=180)) == [0, 60, 120, 180]
    run = happens(tenant)

    def is_right() -> bool:
        reserved = {str(it.run_id): gear.RESERVED_MICROS for it in Run.objects.filter(money_state="RESERVED")}
        unmarked = Run.objects.filter(money_state="NONE", finalize_stage=None)
        return not unmarked.exists() and recovery.held_micros(tenant) == reserved

    assert not is_right()
    assert beat.age_after_passes("hold_auditor", run, until=is_right, within=120) == found_at
    recovery.law_holds(tenant)
