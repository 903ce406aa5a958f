"""A healthy load, and every loop of recovery going round beside it: nobody touches what a worker is at.

The worker is a process of its own; the loops go round here without a pause, which is far oftener than beat has them do.
"""

import threading
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.db import connections

from budget.models import LedgerEntry
from budget.rebuild import gate_watch
from dpp_project.jobs.registry import RunOnce
from reaper import claim_reconciler, dead_letters, hold_auditor, lease_reaper, requeuer, reservation_sweeper
from runs.models import Run, RunHistory
from runs.states import MoneyState, Stage, Status
from tests.gear.builders import recovery
from tests.gear.builders.shop import Shop, a_body, a_request_key
from tests.gear.servers.live_processes import a_worker
from tests.gear.waiting import wait_until
from tests.proving import proofs

DEAD_LETTERS: dict[str, RunOnce] = {"dead_letters": dead_letters.consume_dead_letters}
"""It waits a second for the queue, so it goes round by itself and holds nobody up."""
LOOPS: dict[str, RunOnce] = {
    "lease_reaper": lease_reaper.reap_leases,
    "reservation_sweeper": reservation_sweeper.sweep_reservations,
    "claim_reconciler": claim_reconciler.reconcile_claims,
    "requeuer": requeuer.requeue_runs,
    "hold_auditor": hold_auditor.audit_holds,
}


@dataclass
class Rounds:
    """Loops, one after the other, again and again, on a connection of their own."""

    loops: dict[str, RunOnce]
    made: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    noted: Counter[str] = field(default_factory=Counter)
    stop: threading.Event = field(default_factory=threading.Event)
    failed: list[Exception] = field(default_factory=list)

    def go(self) -> None:
        try:
            while not self.stop.is_set():
                for name, run_once in self.loops.items():
                    report = recovery.run_loop(run_once)
                    self.changed[name] += report.seen + report.changed + report.errors
                    self.noted.update({what: count for what, count in report.detail.items() if isinstance(count, int)})
                self.changed["gate watch"] += gate_watch.watch_gates(limit=10).found
                self.made += 1
        except Exception as error:
            self.failed.append(error)
            raise
        finally:
            connections.close_all()


def submitted(shop: Shop) -> uuid.UUID:
    """As a customer does it: with the same key again where money is being counted at the moment."""
    key = a_request_key()
    body = a_body(inputs={"sleep_ms": 0, "cost_usd": "0.0100"}, reservation={"max_cost_usd": "0.0300"})
    while (answer := shop.submit(body, key=key)).status_code != 202:
        assert answer.json()["reason_code"] in {"BUDGET_UNAVAILABLE", "IDEMPOTENCY_IN_PROGRESS"}, answer.content
    return uuid.UUID(answer.json()["run_id"])


@pytest.mark.timeout(240)
@pytest.mark.contract("DPP-42", "DPP-44")
@pytest.mark.parametrize("runs", [50, pytest.param(500, marks=pytest.mark.slow)])
def test_dpp_42_under_a_load_without_faults_no_loop_touches_a_run(shop: Shop, tmp_path: Path, runs: int) -> None:
    rounds, letters = both = Rounds(LOOPS), Rounds(DEAD_LETTERS)
    going_round = [threading.Thread(target=one.go) for one in both]

    def over() -> bool:
        """A round passes a tenant over whose money moves meanwhile, and on a busy machine most of them do."""
        has_compared = rounds.made >= 5 and rounds.noted["tenants compared"] >= 5
        return has_compared and Run.objects.filter(finalize_stage=Stage.COMMITTED).count() == runs

    with a_worker(tmp_path, concurrency=4):
        for thread in going_round:
            thread.start()
        try:
            asked = {submitted(shop) for _ in range(runs)}
            wait_until(over, seconds=120, pause_seconds=0.1, what="all runs to be over")
        finally:
            for one, thread in zip(both, going_round, strict=True):
                one.stop.set()
                thread.join()
    assert rounds.failed + letters.failed == []
    assert rounds.made >= 5
    assert letters.made >= 1
    assert +(rounds.changed + letters.changed) == Counter()
    assert rounds.noted["tenants compared"] >= 5, rounds.noted
    assert {name for name in rounds.noted if "rebuilt" in name or name == "lost"} == set()
    ends = Run.objects.values_list("status", "money_state", "actual_cost_usd_micros", "last_error_reason_code")
    assert Counter(ends) == {(Status.COMPLETED, MoneyState.SETTLED, 10_000, None): runs}
    assert set(Run.objects.values_list("run_id", flat=True)) == asked
    assert set(RunHistory.objects.values_list("actor", flat=True)) == {"submit", "worker"}
    assert LedgerEntry.objects.filter(kind="CHARGE").count() == runs
    assert recovery.held_micros(shop.tenant) == {}
    assert recovery.balance_micros(shop.tenant) == recovery.FUNDS_MICROS - runs * 10_000
    recovery.law_holds(shop.tenant)
    proofs.report(cases=runs)
