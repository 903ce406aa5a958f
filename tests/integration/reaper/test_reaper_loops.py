"""What holds for every loop of recovery alike: alone, beside itself, on a bad day, and by hand (DPP-46)."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from budget.rebuild import rebuild
from budget.redis import scripts
from dpp_project.jobs import deadline, registry, runner
from dpp_project.jobs.models import JobReport
from dpp_project.jobs.registry import PassReport, RunOnce
from reaper import claim_reconciler, hold_auditor, lease_reaper, requeuer, reservation_sweeper, retention
from runs import transitions
from runs.claims import LOST
from runs.finish import finalization
from runs.models import Run
from runs.reads import for_recovery
from tenants.models import Tenant
from tests.gear.builders import beat, recovery
from tests.gear.builders import runs as gear
from tests.gear.faults.proxy import Mode

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-46")]


@dataclass(frozen=True)
class Loop:
    job: str
    command: str
    run_once: RunOnce
    due: Callable[[Tenant], Run]
    edge: str
    """The function of transitions that each row passes first."""
    moves_money: bool = True


LOOPS = (
    Loop("lease_reaper", "reap", lease_reaper.reap_leases, recovery.lease_ran_out, "claim_lease_expired"),
    Loop(
        "reservation_sweeper",
        "sweep",
        reservation_sweeper.sweep_reservations,
        recovery.waited_an_hour,
        "claim_never_started",
    ),
    Loop("claim_reconciler", "reconcile", claim_reconciler.reconcile_claims, recovery.left_claimed, "retake"),
    Loop("hold_auditor", "audit_holds", hold_auditor.audit_holds, recovery.abandoned, "claim_abandoned"),
    Loop("requeuer", "requeue", requeuer.requeue_runs, recovery.unsent, "postpone_send", moves_money=False),
    Loop("run_retention", "expire_runs", retention.expire_runs, recovery.past_retention, "expire", moves_money=False),
)
every_loop = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.job)
money_loops = pytest.mark.parametrize("loop", [one for one in LOOPS if one.moves_money], ids=lambda loop: loop.job)


def found(report: PassReport) -> tuple[int, int, int]:
    return report.seen, report.changed, report.errors


def row_of(values: dict[str, Any]) -> Any:
    """The run that an edge is asked to move."""
    return values["run"].run_id if "run" in values else values["run_id"]


def by_hand(command: str, *arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command(command, *arguments, "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


@every_loop
def test_dpp_46_a_second_pass_finds_nothing_left(loop: Loop, tenant: Tenant) -> None:
    rows = [loop.due(tenant) for _ in range(3)]
    assert found(recovery.run_loop(loop.run_once)) == (3, 3, 0)
    before = [gear.everything(run.run_id) for run in rows]
    assert found(recovery.run_loop(loop.run_once)) == (0, 0, 0)
    assert [gear.everything(run.run_id) for run in rows] == before
    recovery.law_holds(tenant)


@every_loop
def test_dpp_46_two_at_once_share_the_work(loop: Loop, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(for_recovery, "BATCH", 3)
    rows = [loop.due(tenant) for _ in range(8)]
    reports = recovery.at_once(*[lambda: recovery.run_loop(loop.run_once)] * 2)
    assert sum(report.changed for report in reports if isinstance(report, PassReport)) == 8
    assert sum(report.errors for report in reports if isinstance(report, PassReport)) == 0
    assert all(len(recovery.charges(run)) <= 1 for run in rows)
    recovery.law_holds(tenant)


@every_loop
def test_dpp_46_one_bad_row_does_not_stop_the_rest(loop: Loop, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(for_recovery, "BATCH", 2)
    rows = [loop.due(tenant) for _ in range(4)]
    edge, bad = getattr(transitions, loop.edge), rows[1].run_id

    def breaks(**values: Any) -> Any:
        if row_of(values) == bad:
            raise ValueError("this row is bad")
        return edge(**values)

    before = gear.everything(bad)
    with monkeypatch.context() as patch:
        patch.setattr(transitions, loop.edge, breaks)
        report = recovery.run_loop(loop.run_once)
    assert (*found(report), report.detail["skipped"]) == (4, 3, 1, {str(bad): "ValueError"})
    assert gear.everything(bad) == before
    recovery.empty_queues()  # as workers do; else the requeuer takes what it sent for a backlog
    assert found(recovery.run_loop(loop.run_once)) == (1, 1, 0)
    recovery.law_holds(tenant)


@every_loop
def test_dpp_46_a_pass_takes_no_more_than_its_limit(loop: Loop, tenant: Tenant) -> None:
    for _ in range(3):
        loop.due(tenant)
    assert recovery.run_loop(loop.run_once, limit=2).changed == 2
    recovery.empty_queues()
    assert recovery.run_loop(loop.run_once, limit=2).changed == 1


@every_loop
def test_dpp_46_rows_that_failed_come_after_the_others_and_are_tried_again(
    loop: Loop, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [loop.due(tenant) for _ in range(4)]
    edge, bad = getattr(transitions, loop.edge), {run.run_id for run in rows[:2]}

    def breaks(**values: Any) -> Any:
        if row_of(values) in bad:
            raise ValueError("this row is bad")
        return edge(**values)

    with monkeypatch.context() as patch:
        patch.setattr(transitions, loop.edge, breaks)
        assert found(recovery.run_loop(loop.run_once, limit=2)) == (2, 0, 2)
        assert found(recovery.run_loop(loop.run_once, limit=2)) == (2, 2, 0)
        recovery.empty_queues()
        assert found(recovery.run_loop(loop.run_once)) == (2, 0, 2)
    assert found(recovery.run_loop(loop.run_once)) == (2, 2, 0)
    recovery.law_holds(tenant)


@every_loop
def test_dpp_46_a_row_that_costs_the_connection_each_time_stops_no_other(
    loop: Loop, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose lock another session never lets go: Postgres is given up for it."""
    rows = [loop.due(tenant) for _ in range(3)]
    edge, bad = getattr(transitions, loop.edge), rows[0].run_id

    def breaks(**values: Any) -> Any:
        if row_of(values) == bad:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return edge(**values)

    with monkeypatch.context() as patch:
        patch.setattr(transitions, loop.edge, breaks)
        report = recovery.run_loop(loop.run_once)
    assert (*found(report), report.detail["skipped"]) == (3, 2, 1, {str(bad): "OperationalError"})
    recovery.empty_queues()
    assert found(recovery.run_loop(loop.run_once)) == (1, 1, 0)
    recovery.law_holds(tenant)


@every_loop
def test_dpp_46_a_row_that_stays_due_is_met_once_in_a_pass(
    loop: Loop, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(for_recovery, "BATCH", 2)
    rows = [loop.due(tenant) for _ in range(5)]
    edge, held = getattr(transitions, loop.edge), {run.run_id for run in rows[:3]}
    met: list[Any] = []

    def always_lost(**values: Any) -> Any:
        met.append(row_of(values))
        if len(met) > len(rows):
            raise recovery.Died  # round and round
        return LOST if met[-1] in held else edge(**values)

    monkeypatch.setattr(transitions, loop.edge, always_lost)
    report = recovery.run_loop(loop.run_once)
    assert (*found(report), report.detail["lost"]) == (5, 2, 0, 3)
    assert met == [run.run_id for run in rows]


@every_loop
def test_dpp_46_a_pass_ends_at_its_deadline_and_the_next_goes_on(
    loop: Loop, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        loop.due(tenant)
    edge, seconds = getattr(transitions, loop.edge), [0.0]

    def slow(**values: Any) -> Any:
        seconds[0] += 4
        return edge(**values)

    monkeypatch.setattr(transitions, loop.edge, slow)
    monkeypatch.setattr(deadline, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(requeuer, "BATCH", 1)
    with deadline.within_deadline(deadline.Pass(seconds=10)):
        first = recovery.run_loop(loop.run_once)
    assert (*found(first), first.detail["ended_by"]) == (3, 3, 0, "deadline")
    recovery.empty_queues()
    with deadline.within_deadline(deadline.Pass(seconds=10)):
        second = recovery.run_loop(loop.run_once)
    assert found(second) == (2, 2, 0)
    assert "ended_by" not in second.detail
    recovery.law_holds(tenant)


@every_loop
def test_dpp_46_a_pass_that_begins_late_still_moves_one_row(loop: Loop, tenant: Tenant) -> None:
    for _ in range(2):
        loop.due(tenant)
    with deadline.within_deadline(deadline.Pass(seconds=0)):
        report = recovery.run_loop(loop.run_once)
    assert report.changed == (2 if loop.job == "requeuer" else 1)


@every_loop
def test_dpp_46_a_row_that_a_rival_moved_is_left_to_it(
    loop: Loop, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.due(tenant)
    edge = getattr(transitions, loop.edge)

    def rival_first(**values: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(transitions, loop.edge, edge)
            assert recovery.run_loop(loop.run_once).changed == 1
        return edge(**values)

    with monkeypatch.context() as patch:
        patch.setattr(transitions, loop.edge, rival_first)
        report = recovery.run_loop(loop.run_once)
    assert (*found(report), report.detail["lost"]) == (1, 0, 0, 1)
    recovery.law_holds(tenant)


@every_loop
@pytest.mark.contract("DPP-76")
def test_dpp_76_by_hand_a_dry_run_counts_and_changes_nothing(loop: Loop, tenant: Tenant) -> None:
    run = loop.due(tenant)
    before = gear.everything(run.run_id), recovery.held_micros(tenant), recovery.balance_micros(tenant)
    answer = by_hand(loop.command, "--dry-run")
    assert (answer["outcome"], answer["changed"], answer["dry_run"]) == ("done", 1, True)
    assert (gear.everything(run.run_id), recovery.held_micros(tenant), recovery.balance_micros(tenant)) == before
    assert by_hand(loop.command)["changed"] == 1
    assert gear.everything(run.run_id) != before[0]


@every_loop
def test_dpp_46_beat_runs_it_and_leaves_its_report(loop: Loop, tenant: Tenant) -> None:
    loop.due(tenant)
    job = registry.job_named(loop.job)
    interval = {"lease_reaper": 30, "run_retention": 300}.get(loop.job, 60)
    assert list(beat.seconds_of(loop.job, until=300))[:2] == [0, interval]
    assert runner.run_job_pass(job).outcome is runner.PassOutcome.DONE
    report = JobReport.objects.get(job=loop.job)
    assert (report.changed, report.errors, report.ended_at is not None) == (1, 0, True)


@money_loops
def test_while_money_is_closed_nothing_is_claimed(loop: Loop, tenant: Tenant) -> None:
    run = loop.due(tenant)
    before = gear.everything(run.run_id)
    money = scripts.shared_scripts()
    money.gate.close(money.client)
    report = recovery.run_loop(loop.run_once)
    assert (report.seen, report.changed, report.errors, report.detail) == (0, 0, 0, {"waits_for": "money"})
    assert gear.everything(run.run_id) == before
    rebuild.rebuild_all()
    gear.aged(run, updated_at=61)  # the rebuild's fence was a step of an abandoned row too
    assert recovery.run_loop(loop.run_once).changed == 1
    recovery.law_holds(tenant)


@money_loops
@pytest.mark.parametrize("dies", ["before the money moves", "after the money moved", "after the commit"])
@pytest.mark.contract("DPP-42")
def test_dpp_42_what_a_death_leaves_the_reconciler_finishes(
    loop: Loop, dies: str, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = loop.due(tenant)
    module, name = (transitions, "commit") if dies == "after the commit" else (finalization, "_move_money")
    real = getattr(module, name)

    def dying(*arguments: Any, **values: Any) -> Any:
        if dies != "before the money moves":
            real(*arguments, **values)
        raise recovery.Died

    with monkeypatch.context() as patch:
        patch.setattr(module, name, dying)
        with pytest.raises(recovery.Died):
            recovery.run_loop(loop.run_once)
    left = gear.row(run.run_id)
    assert left.finalize_stage == ("COMMITTED" if dies == "after the commit" else "CLAIMED")
    assert recovery.run_loop(loop.run_once).changed == 0
    if dies != "after the commit":
        assert gear.row(run.run_id).version == left.version
        recovery.minutes_pass(run)
        assert recovery.run_loop(claim_reconciler.reconcile_claims).changed == 1
    ended = gear.row(run.run_id)
    assert (ended.status, ended.money_state) == (left.intent_status, left.intent_money_state)
    assert recovery.charges(run) == ([-(left.intent_charge_usd_micros or 0)] if left.intent_charge_usd_micros else [])
    assert recovery.held_micros(tenant) == {}
    recovery.law_holds(tenant)


@money_loops
@pytest.mark.contract("DPP-39")
def test_dpp_39_redis_gone_between_claim_and_settle_leaves_the_intent_and_the_rest_alone(
    loop: Loop, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [loop.due(tenant) for _ in range(3)]
    edge = getattr(transitions, loop.edge)
    with recovery.redis_through_proxy(monkeypatch) as proxy:

        def redis_goes(**values: Any) -> Any:
            outcome = edge(**values)
            proxy.set(Mode.REFUSE)
            return outcome

        with monkeypatch.context() as patch:
            patch.setattr(transitions, loop.edge, redis_goes)
            report = recovery.run_loop(loop.run_once)
        assert (report.seen, report.changed, report.detail["waiting"]) == (1, 0, 1)
        moved = [run for run in runs if gear.row(run.run_id).version != run.version]
        assert [(gear.row(run.run_id).finalize_stage, recovery.charges(run)) for run in moved] == [("CLAIMED", [])]
        proxy.set(Mode.PASS)
        recovery.minutes_pass(moved[0])
        recovery.run_loop(claim_reconciler.reconcile_claims)
        recovery.run_loop(loop.run_once)
    assert {gear.row(run.run_id).finalize_stage for run in runs} == {"COMMITTED"}
    recovery.law_holds(tenant)


def test_no_row_makes_a_loop_harmful_an_hour_late(tenant: Tenant) -> None:
    """Not one job for an hour, then all of them, in the worst order: each run ends once, to the micro."""
    dues = [loop.due(tenant) for loop in LOOPS if loop.job != "run_retention" for _ in range(2)]
    for run in dues:
        Run.objects.filter(run_id=run.run_id).update(
            created_at=gear.aged(run, created_at=7_200).created_at, next_send_at=run.next_send_at
        )
    for loop in reversed(LOOPS):
        recovery.run_loop(loop.run_once)
    ended = [gear.row(run.run_id) for run in dues]
    assert {run.finalize_stage for run in ended} == {"COMMITTED"}
    assert recovery.held_micros(tenant) == {}
    recovery.law_holds(tenant)
