"""How long money stays closed after Redis was lost, and what a rebuild needs for it, against what it depends on.

    make bench B=rebuild_outage

The runs of a day, committed evenly over it, stand in `runs` and in the ledger, at three sizes; then Redis is emptied
and all money rebuilt. `before` makes the receipts of the whole day again, as the rebuild once did; its slope is what
one receipt costs, and so tells what a day of 10,000,000 runs would take. Claimed runs are fenced at two sizes.

One run on two cores that others used too:

      runs a day   rebuild      sums  receipts    before  receipts      peak
         100,000    0.27 s    0.16 s     1,025    3.84 s    99,981   117 MiB
         200,000    0.30 s    0.15 s     2,031    7.73 s   199,937   117 MiB
    a receipt: 38.9 us, and so at 10,000,000 runs a day 4.0 s for 101,550 receipts; before, 389 s
    20,000 claimed runs fenced: 8,593 a second, in 10 batches
    40,000 claimed runs fenced: 7,993 a second, in 20 batches
    peak of this process: 120 MiB
"""

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from bench._services import own_services

SIZES = (50_000, 100_000, 200_000)
A_DAY = 10_000_000
TENANTS = 50
CLAIMED = (20_000, 40_000)

_TENANTS = (
    "INSERT INTO tenants (tenant_id, display_name) SELECT 't_' || n, 't_' || n FROM generate_series(1, {tenants}) n"
)
_RUNS = """
INSERT INTO runs (run_id, tenant_id, pack_type, status, money_state, payload_hash, version,
                  reservation_max_cost_usd_micros, actual_cost_usd_micros, minimum_fee_usd_micros, retention_until,
                  finalize_token, finalize_stage, finalize_claimed_at, intent_status, intent_money_state,
                  intent_charge_usd_micros, intent_reason_code, last_error_reason_code, next_send_at, last_actor,
                  lease_token, lease_expires_at, created_at, updated_at)
SELECT gen_random_uuid(), 't_' || (n % {tenants} + 1), 'probe', '{status}', '{money}', repeat('a', 64), 5, 250000,
       {cost}, 5000, now() + interval '30 days', 'token', '{stage}', now(), 'FAILED', 'SETTLED', 5000, 'PACK_FAILED',
       {reason}, now(), 'worker', 'lease', now(), moment, moment
  FROM (SELECT n, now() - interval '1 day' * (n::numeric / {size}) AS moment FROM generate_series(1, {size}) n) made
"""
_CHARGES = """
INSERT INTO ledger_entries (entry_id, tenant_id, run_id, kind, amount_usd_micros, actor, created_at)
SELECT gen_random_uuid(), tenant_id, run_id, 'CHARGE', -5000, 'worker', updated_at FROM runs WHERE status = 'FAILED'
"""


@contextmanager
def without_triggers(cursor: Any) -> Iterator[None]:
    for table in ("runs", "ledger_entries"):
        cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    yield
    for table in ("runs", "ledger_entries"):
        cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def fill(size: int, *, claimed: bool) -> None:
    from django.db import connection

    state = {"status": "PROCESSING", "money": "RESERVED", "stage": "CLAIMED", "cost": "NULL", "reason": "NULL"}
    if not claimed:
        state = {
            "status": "FAILED",
            "money": "SETTLED",
            "stage": "COMMITTED",
            "cost": "5000",
            "reason": "'PACK_FAILED'",
        }
    with connection.cursor() as cursor:
        with without_triggers(cursor):
            cursor.execute("TRUNCATE runs, ledger_entries CASCADE")
            cursor.execute(_RUNS.format(size=size, tenants=TENANTS, **state))
            if not claimed:
                cursor.execute(_CHARGES)
        cursor.execute("VACUUM ANALYZE runs")
        cursor.execute("VACUUM ANALYZE ledger_entries")


def timed(what: Callable[[], object]) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024


def slope(points: list[tuple[int, float]]) -> float:
    """Between the last two: what is fixed is in the smaller one too."""
    (small, less), (large, more) = list(pairwise(points))[-1]
    return (more - less) / (large - small)


def measure() -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from budget import ledger
    from budget.rebuild import rebuild
    from budget.redis import keys, scripts
    from runs.reads.for_budget import OpenRunsOfTheTable

    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(_TENANTS.format(tenants=TENANTS))
    valkey = scripts.shared_scripts().client
    now_seconds = keys.RECEIPT_REBUILT_SECONDS

    def emptied_and_rebuilt() -> float:
        valkey.flushall()
        return timed(rebuild.rebuild_all)

    fill(SIZES[0], claimed=False)
    emptied_and_rebuilt()
    written: list[tuple[int, float]] = []
    made: list[tuple[int, float]] = []
    heads = ("rebuild", "sums", "receipts", "before", "receipts", "peak")
    print(f"{'runs a day':>12s}", *(f"{head:>9s}" for head in heads))
    for size in SIZES:
        fill(size, claimed=False)
        seconds = min(emptied_and_rebuilt() for _ in range(3))
        receipts, peak = sum(1 for _ in valkey.scan_iter("receipt:*", count=10_000)), peak_mib()
        sums = min(timed(ledger.ledger_totals) for _ in range(3))
        keys.RECEIPT_REBUILT_SECONDS = 86_400  # type: ignore[misc]
        before = emptied_and_rebuilt()
        of_a_day = sum(1 for _ in valkey.scan_iter("receipt:*", count=10_000))
        keys.RECEIPT_REBUILT_SECONDS = now_seconds  # type: ignore[misc]
        written.append((of_a_day, before))
        made.append((size, float(receipts)))
        print(
            f"{size:12,d} {seconds:7.2f} s {sums:7.2f} s {receipts:9,d} {before:7.2f} s {of_a_day:9,d} {peak:5.0f} MiB",
            flush=True,
        )
    each, at_a_day = slope(written), round(slope(made) * A_DAY)
    print(
        f"a receipt: {each * 1e6:.1f} us, and so at {A_DAY:,d} runs a day {each * at_a_day:.1f} s"
        f" for {at_a_day:,d} receipts; before, {each * A_DAY:.0f} s"
    )
    for size in CLAIMED:
        fill(size, claimed=True)
        batches: list[int] = []
        seconds = timed(lambda: batches.extend(OpenRunsOfTheTable().fence(tenant_id=None)))  # noqa: B023
        print(f"{size:,d} claimed runs fenced: {size / seconds:,.0f} a second, in {len(batches)} batches")
    print(f"peak of this process: {peak_mib():.0f} MiB")


if __name__ == "__main__":
    with own_services():
        measure()
