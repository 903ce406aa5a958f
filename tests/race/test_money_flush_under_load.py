"""Redis emptied again and again while runs are held, settled and committed, and money is topped up (DPP-55, DPP-56)."""

import random
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
import redis
from django.db import connections

from budget import entries, ledger, services
from budget.entries import Entered
from budget.outcomes import AlreadyHeld, Held, Insufficient, Refunded, Settled
from budget.rebuild import rebuild
from budget.rebuild.gate_watch import watch_gates
from budget.redis import keys
from budget.verification import verify
from budget.verification.verify import Verdict
from tests.gear.builders.money import standing_balance
from tests.gear.builders.open_runs import RunsTable, runs_table
from tests.gear.builders.tenants import a_tenant
from tests.gear.waiting import wait_until

__all__ = ["runs_table"]
pytestmark = pytest.mark.contract("DPP-55", "DPP-56", "DPP-57")

WORKERS = 3
RUNS_EACH = 60
FLUSHES = 5


class Load:
    """Workers that go through a run's whole life, top-ups between them, and a watch that rebuilds as beat does."""

    def __init__(self, runs: RunsTable, tenants: list[str]) -> None:
        self.runs, self.tenants = runs, tenants
        self.failed: list[BaseException] = []
        self.done = threading.Event()
        self.ended = 0

    def work(self, seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311  a schedule, not a secret
        for number in range(RUNS_EACH):
            tenant_id = chance.choice(self.tenants)
            self.submit(tenant_id, chance.randrange(1, 5_000))
            if number % 10 == 0:
                made = entries.top_up(
                    tenant_id=tenant_id, amount_micros=777, reference=f"{seed}-{number}", reason="", actor="test"
                )
                assert isinstance(made, Entered)
            for run_id, owner, money in self.runs.unended()[:3]:
                self.finish(run_id, owner, money, chance.randrange(0, 5_000))

    def submit(self, tenant_id: str, micros: int) -> None:
        run_id = self.runs.accept(tenant_id, micros)
        held = services.hold(tenant_id=tenant_id, run_id=run_id, reserved_micros=micros, created_at_ms=1)
        if isinstance(held, Held | AlreadyHeld):
            self.runs.mark_reserved(run_id)
        elif isinstance(held, Insufficient):
            self.runs.drop(run_id)

    def finish(self, run_id: str, owner: str, money: str, charge: int) -> None:
        """Whoever claims last may commit; a claim that was fenced or retaken commits nothing."""
        claimed = self.runs.claim(run_id)
        if claimed is None:
            return
        if money == "NONE":
            refunded = services.refund(tenant_id=owner, run_id=run_id)
            if isinstance(refunded, Refunded):
                self.runs.commit(claimed, taken_micros=refunded.charge_micros)
            return
        settled = services.settle(tenant_id=owner, run_id=run_id, charge_micros=charge)
        if isinstance(settled, Settled):
            self.runs.commit(claimed, taken_micros=settled.charge_micros)

    def guarded(self, what: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                what()
            except BaseException as error:
                self.failed.append(error)
                raise
            finally:
                connections.close_all()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def watch(self) -> None:
        while not self.done.is_set():
            watch_gates(limit=10)
            entries.replay_pending(limit=100, older_than=timedelta(0))


def test_dpp_55_not_a_micro_is_lost_when_redis_is_emptied_under_load(
    runs_table: RunsTable, valkey: redis.Redis
) -> None:
    tenants = [a_tenant().tenant_id for _ in range(2)]
    rebuild.rebuild_all()
    for tenant_id in tenants:
        entries.top_up(tenant_id=tenant_id, amount_micros=100_000, reference="first", reason="", actor="test")
    load = Load(runs_table, tenants)
    watcher = load.guarded(load.watch)
    workers = [load.guarded(lambda seed=seed: load.work(seed)) for seed in range(WORKERS)]  # type: ignore[misc]

    for flush in range(FLUSHES):
        wait_until(lambda: valkey.get(keys.EPOCH) and not str(valkey.get(keys.EPOCH)).startswith("closed."))
        before = valkey.get(keys.EPOCH)
        if flush % 2:
            valkey.delete(keys.balance_key(tenants[0]))
            wait_until(lambda: valkey.exists(keys.balance_key(tenants[0])))
        else:
            valkey.flushall()
            wait_until(lambda before=before: valkey.get(keys.EPOCH) not in {None, before})  # type: ignore[misc]

    for thread in workers:
        thread.join()
    load.done.set()
    watcher.join()
    assert load.failed == []
    settle_down(load, tenants)


def settle_down(load: Load, tenants: list[str]) -> None:
    watch_gates(limit=10)
    for run_id, owner, money in load.runs.unended():
        load.finish(run_id, owner, money, 1_000)
    entries.replay_pending(limit=1_000, older_than=timedelta(0))
    assert load.runs.unended() == []
    for tenant_id in tenants:
        proof = verify.verify_tenant_money(tenant_id)
        assert (proof.verdict, proof.differences) == (Verdict.PROVED, ())
        assert standing_balance(tenant_id) == ledger.sums_of(tenant_id).total_micros
