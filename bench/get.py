"""`GET /v1/runs/{id}` at 16 clients against a bare indexed SELECT, and both paths as the table grows.

    make bench B=get

Twice bare: as a plain Django view with the ORM and no middleware, and with a raw driver and no framework. Both do one
SELECT and nothing else: no key is checked, no rate counted, no balance read, no line logged. What lies between is the
price of those. Each path at 10,000 rows is compared with itself at 1,000,000 (`--rows` for fewer). The CPU is that of
the server alone; on a busy machine it is the figure to go by.
"""

import argparse
import itertools
import random
import statistics
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import psycopg

from bench._load import Figures, drive
from bench._servers import Server, Stage, ours, running, stage
from bench.submit import requests as submits

FEW = 10_000
_FILL = """
INSERT INTO runs (run_id, tenant_id, pack_type, profile_version, status, money_state, payload_hash, version,
                  reservation_max_cost_usd_micros, minimum_fee_usd_micros, actual_cost_usd_micros, retention_until,
                  finalize_stage, finalize_token, finalize_claimed_at, intent_status, intent_money_state,
                  intent_charge_usd_micros, intent_reason_code, last_error_reason_code, last_actor, created_at)
SELECT ('01980000-' || lpad(to_hex(n / 65536), 4, '0') || '-7' || lpad(to_hex(n % 4096), 3, '0') || '-8000-'
        || lpad(to_hex(n), 12, '0'))::uuid,
       't_bench', 'probe', 'bench', 'FAILED', 'SETTLED', repeat('a', 64), 4, 250000, 5000, 5000,
       now() + interval '20 days', 'COMMITTED', 'x', now(), 'FAILED', 'SETTLED', 5000, 'PACK_FAILED', 'PACK_FAILED',
       'bench', now() - n * interval '1 second'
  FROM generate_series(%s::bigint, %s::bigint - 1) AS n
"""


def run_id(n: int) -> uuid.UUID:
    return uuid.UUID(f"01980000-{n // 65_536:04x}-7{n % 4_096:03x}-8000-{n:012x}")


def fill(here: Stage, first: int, last: int) -> None:
    with psycopg.connect(here.environ["DATABASE_URL"], autocommit=True) as postgres:
        postgres.execute("ALTER TABLE runs DISABLE TRIGGER USER")
        for start in range(first, last, 50_000):
            postgres.execute(_FILL.replace(" % ", " %% "), [start, min(start + 50_000, last)])
        postgres.execute("ALTER TABLE runs ENABLE TRIGGER USER")
        postgres.execute("VACUUM ANALYZE runs")


def reads(api_key: str, rows: int) -> Callable[[], bytes]:
    ids = [run_id(random.randrange(rows)) for _ in range(5_000)]
    each = itertools.cycle(
        f"GET /v1/runs/{one} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api_key}\r\n\r\n".encode()
        for one in ids
    )
    return lambda: next(each)


@dataclass(frozen=True)
class Seen:
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float

    def __str__(self) -> str:
        times = f"p50 {self.p50_ms:6.1f} ms   p99 {self.p99_ms:6.1f} ms   CPU {self.cpu_ms:5.2f} ms"
        return f"{self.per_second:7.0f}/s   {times}"


def measured(pairs: dict[str, tuple[Server, Callable[[], bytes]]], *, rounds: int, seconds: float) -> dict[str, Seen]:
    """Turn by turn, so that what slows the machine slows all."""
    found: dict[str, list[tuple[Figures, float]]] = {name: [] for name in pairs}
    for server, asked in pairs.values():
        drive(server.port, asked, clients=16, seconds=1)
    for _ in range(rounds):
        for name, (server, asked) in pairs.items():
            before = server.cpu_seconds()
            figures = drive(server.port, asked, clients=16, seconds=seconds)
            assert set(figures.statuses) <= {200, 202}, (name, figures.statuses)
            spent = (server.cpu_seconds() - before) / sum(figures.statuses.values()) * 1_000
            found[name].append((figures, spent))
    return {
        name: Seen(
            statistics.median(figures.per_second for figures, _ in some),
            statistics.median(figures.p50_ms for figures, _ in some),
            statistics.median(figures.p99_ms for figures, _ in some),
            statistics.median(spent for _, spent in some),
        )
        for name, some in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4)
    given = parser.parse_args()
    seen: dict[int, dict[str, Seen]] = {}
    with stage() as here, ExitStack() as stack:
        our_api = stack.enter_context(ours(here))
        view = stack.enter_context(running("bare view", "bench.peers.bare_view:application", here))
        driver = stack.enter_context(running("bare driver", "bench.peers.bare_get:application", here))
        there = 0
        for rows in (FEW, given.rows):
            began = time.perf_counter()
            fill(here, there, rows)
            there = rows
            print(f"{rows:,} rows ({time.perf_counter() - began:.0f} s to fill)")
            pairs = {
                "read": (our_api, reads(here.api_key, rows)),
                "bare view": (view, reads(here.api_key, rows)),
                "bare driver": (driver, reads(here.api_key, rows)),
                "list": (our_api, lambda: _list(here.api_key)),
                "submit": (our_api, submits(here.api_key, f"rows-{rows}")),
            }
            seen[rows] = measured(pairs, rounds=given.rounds, seconds=given.seconds)
            for name, found in seen[rows].items():
                print(f"  {name:11s} {found}")
    tell(seen[FEW], seen[given.rows])


def _list(api_key: str) -> bytes:
    return f"GET /v1/runs?limit=20 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api_key}\r\n\r\n".encode()


def tell(few: dict[str, Seen], many: dict[str, Seen]) -> None:
    ours = many["read"]
    for name in ("bare view", "bare driver"):
        by_rate, by_cpu = ours.per_second / many[name].per_second, many[name].cpu_ms / ours.cpu_ms
        print(f"read / {name:11s} {by_rate:5.2f} by rate   {by_cpu:5.2f} by CPU")
    for name, at_few in few.items():
        times, spent = many[name].p50_ms / at_few.p50_ms, many[name].cpu_ms / at_few.cpu_ms
        print(f"{name:11s} at many rows takes {times:5.2f} x its p50 and {spent:5.2f} x its CPU at few")


if __name__ == "__main__":
    main()
