"""What was spent, and usage, at 1,000,000 charges a month of one tenant. Targets: counts 20 ms, a month's usage 300 ms.

    make bench B=usage

It makes a database of its own and drops it. The charges of 26 hours (36,000) stand behind the last daily sum, the most
that a day leaves there; the others are summed up. Ten keys, four packs, each twentieth run failed. `plain` adds up the
entries themselves, as if there were no days of spending.

One run on two busy cores:

    counts of the tenant                             9.0 ms   of 20 ms allowed
    counts of the tenant and ten keys               10.8 ms   of 20 ms allowed
    counts, plain                                  185.4 ms
    usage of a month                               175.3 ms   of 300 ms allowed
    usage of a month by pack                       181.6 ms   of 300 ms allowed
    usage of a month as FOCUS                      192.6 ms   of 300 ms allowed
"""

import statistics
import time
import uuid
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any

from bench._services import own_services

CHARGES = 1_000_000
SINCE = 36_000
LARGE = "t_large"
TIMES = 15

_RUNS = """
INSERT INTO runs (run_id, tenant_id, pack_type, profile_version, status, money_state, payload_hash, version,
                  reservation_max_cost_usd_micros, minimum_fee_usd_micros, actual_cost_usd_micros, retention_until,
                  finalize_stage, finalize_token, finalize_claimed_at, intent_status, intent_money_state,
                  intent_charge_usd_micros, intent_reason_code, last_error_reason_code, last_actor, created_at,
                  tokens_consumed, lineage_id, spend_day)
SELECT ('01980000-' || lpad(to_hex(n / 65536), 4, '0') || '-7' || lpad(to_hex(n %% 4096), 3, '0') || '-8000-'
        || lpad(to_hex(n), 12, '0'))::uuid,
       't_large', (ARRAY['decision', 'url', 'ocr', 'eval'])[n %% 4 + 1], 'bench', 'FAILED', 'SETTLED', repeat('a', 64),
       4, 250000, 5000, 5000, now() + interval '20 days', 'COMMITTED', 'x', now(), 'FAILED', 'SETTLED', 5000,
       'PACK_FAILED', CASE n %% 20 WHEN 0 THEN 'PACK_FAILED' END, 'bench', at, n %% 100,
       ('00000000-0000-4000-8000-' || lpad((n %% 10)::text, 12, '0'))::uuid, (at AT TIME ZONE 'UTC')::date
  FROM (SELECT n, CASE WHEN n < %(summed)s THEN %(midnight)s - interval '29 days' * (1 - n::numeric / %(summed)s)
                       ELSE %(midnight)s + (now() - %(midnight)s) * (n - %(summed)s)::numeric / %(since)s END AS at
          FROM generate_series(%(first)s::bigint, %(last)s::bigint) n) each
"""
_CHARGES = """
INSERT INTO ledger_entries (entry_id, tenant_id, run_id, kind, amount_usd_micros, actor, created_at, lineage_id,
                            spend_day)
SELECT gen_random_uuid(), tenant_id, run_id, 'CHARGE', -(tokens_consumed + 1), 'bench', created_at, lineage_id,
       spend_day
  FROM runs ORDER BY run_id
"""
_PLAIN = """
SELECT sum(-amount_usd_micros) FILTER (WHERE spend_day = %(day)s),
       sum(-amount_usd_micros) FILTER (WHERE spend_day >= date_trunc('month', %(day)s)), sum(-amount_usd_micros)
  FROM ledger_entries WHERE tenant_id = 't_large' AND spend_day IS NOT NULL
"""


def said(what: str, call: Callable[[], object], *, limit_ms: int | None = None) -> None:
    """The median of some, after two that fill the caches."""
    times = []
    for _ in range(TIMES + 2):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1_000)
    allowed = "" if limit_ms is None else f"   of {limit_ms} ms allowed"
    print(f"{what:44s} {statistics.median(times[2:]):7.1f} ms   worst {max(times[2:]):7.1f} ms{allowed}", flush=True)


def fill() -> None:
    from django.core.management import call_command
    from django.db import connection

    from budget import daily_snapshots
    from dpp_project import clock

    call_command("migrate", verbosity=0)
    midnight = clock.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    values: dict[str, Any] = {"summed": CHARGES - SINCE, "since": SINCE, "midnight": midnight}
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("INSERT INTO tenants (tenant_id, display_name) VALUES ('t_large', 'large')")
        for first in range(0, CHARGES, 50_000):
            cursor.execute(_RUNS, values | {"first": first, "last": first + 49_999})
        cursor.execute(_CHARGES)
        cursor.execute("SET session_replication_role = origin")
        cursor.execute("VACUUM ANALYZE runs")
        cursor.execute("VACUUM ANALYZE ledger_entries")
    began = time.perf_counter()
    for day in reversed(range(29)):
        daily_snapshots.sum_up(now=midnight - timedelta(days=day) + timedelta(hours=1), limit=10)
    print(f"{'29 daily sums':44s} {(time.perf_counter() - began) * 1_000:7.0f} ms together", flush=True)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE spend_days")
        cursor.execute("SELECT count(*) FROM spend_days")
        print(f"{'days of spending':44s} {cursor.fetchone()[0]:7,} rows", flush=True)


def measure() -> None:
    import django

    django.setup()
    from django.db import connection

    from budget import spend
    from budget.spend import SpendScope
    from budget.usage import csv_rows, documents, focus_rows, ranges
    from budget.usage.ranges import UsagePeriod, UsageRange
    from budget.usage.reading import UsageGroup

    fill()
    running = ranges.usage_range(LARGE)
    assert isinstance(running, UsageRange)
    today = running.end - timedelta(days=1)
    month = UsageRange(LARGE, "UTC", today - timedelta(days=31), running.end)
    lineages = [uuid.UUID(f"00000000-0000-4000-8000-{number:012}") for number in range(10)]

    def plain() -> None:
        with connection.cursor() as cursor:
            cursor.execute(_PLAIN, {"day": today})
            cursor.fetchone()

    said("counts of the tenant", lambda: spend.spent_of_scopes([SpendScope(LARGE, None, today)]), limit_ms=20)
    everyone = [SpendScope(LARGE, lineage, today) for lineage in [None, *lineages]]
    said("counts of the tenant and ten keys", lambda: spend.spent_of_scopes(everyone), limit_ms=20)
    said("counts, plain", plain)
    for group in (None, *UsageGroup):
        name = "usage of a month" + ("" if group is None else f" by {group.value}")
        said(name, lambda group=group: documents.usage_document(month, UsagePeriod.DAY, group), limit_ms=300)  # type: ignore[misc]
    said(
        "usage of a month as CSV",
        lambda: list(csv_rows.usage_csv_rows(month, UsagePeriod.DAY, UsageGroup.PACK)),
        limit_ms=300,
    )
    said("usage of a month as FOCUS", lambda: list(focus_rows.usage_focus_rows(month, UsagePeriod.DAY)), limit_ms=300)


if __name__ == "__main__":
    with own_services():
        measure()
