"""How floods share a worker, and what it costs to choose the next of many that wait.

    make bench B=floods

One worker with four slots, as the product starts it, on the services of the bench. The first flood stands when the
second comes, whose tenant has three times the weight; what counts is which runs have started when half of all have.
Then the statement that chooses is asked with a hundred and with ten thousand runs in the line, just inserted and never
analyzed, of two and of a hundred tenants.
"""

import os
import statistics
import time
import uuid
from collections import Counter
from functools import partial

from bench._figures import tell
from bench.fairness import a_worker
from bench.worker_throughput import prepare

RUNS, SLEEP_MS, WEIGHT = 60, 50, 3
MOST_SECONDS = 180.0
ASKED = 200
LINES = ((100, 2), (10_000, 2), (10_000, 100))


def shares() -> None:
    from runs.models import Run
    from runs.states import Status
    from runs.submit import wake_worker
    from runs.submit.wake_worker import Wakeup
    from tests.gear.builders import recovery, turns

    recovery.empty_queues()
    plain, heavy = recovery.funded(), turns.with_weight(recovery.funded(), WEIGHT)
    names = {plain.tenant_id: "weight 1, first", heavy.tenant_id: f"weight {WEIGHT}, second"}
    for tenant in (plain, heavy):
        for _ in range(RUNS):
            values = {"inputs": {"sleep_ms": SLEEP_MS}, "timebox_sec": 60, "reserved_micros": 10_000}
            wake_worker.send_wakeup(Wakeup.of(turns.in_line(tenant, **values)))
    started = Run.objects.filter(tenant_id__in=names).exclude(status=Status.QUEUED)
    with a_worker(express=False):
        until = time.monotonic() + MOST_SECONDS
        while (found := Counter(started.values_list("tenant_id", flat=True))).total() < RUNS:
            if time.monotonic() > until:
                raise SystemExit(f"{found.total()} of {RUNS} started in {MOST_SECONDS:.0f} s")
            time.sleep(0.01)
    for tenant_id, name in names.items():
        tell(f"starts of the first {RUNS}, {name}", found[tenant_id], "")
    heavy_share = found[heavy.tenant_id] / found.total()
    tell("share of weight 3 beside weight 1, of three quarters", heavy_share / 0.75, "x", at_least=0.85, at_most=1.15)


def choosing() -> None:
    from django.db import connection, transaction

    from runs.packs import registry
    from runs.reads import for_worker
    from tests.gear.builders import bulk, tenants

    for count, of_tenants in LINES:
        with transaction.atomic(), connection.cursor() as cursor:
            bulk.in_line(cursor, owners=[tenants.a_tenant().tenant_id for _ in range(of_tenants)], count=count)
            ask = partial(for_worker.next_in_line, uuid.uuid4(), packs=registry.packs_for_sale(), own_too=True)
            took = []
            for _ in range(ASKED):
                began = time.perf_counter()
                assert ask() is not None
                took.append((time.perf_counter() - began) * 1_000)
            transaction.set_rollback(True)
        tell(f"chosen of {count:,d} by {of_tenants} tenants: p50", statistics.median(took), "ms")


def main() -> None:
    os.environ["DPP_ENABLE_PROBE_PACK"] = "1"
    prepare()
    shares()
    choosing()


if __name__ == "__main__":
    main()
