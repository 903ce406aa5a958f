"""`GET /v1/runs/{id}` and a page of the list at 16 clients, against views and drivers that do less.

    make bench B=get

Thrice bare, with one SELECT each: a plain Django view with the ORM and no middleware that authenticates as ours does,
the same without a key, and a raw driver without a framework. None counts a rate, reads a balance or logs a line: what
lies between is the price of those. The CPU is that of the server alone; on a busy machine it is the figure to go by.
How it grows with the table: `make bench B=growth`.
"""

import argparse
import itertools
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import psycopg

from bench._figures import tell
from bench._load import Figures, drive
from bench._servers import Server, Stage, ours, running, stage
from tests.gear.builders import bulk

ROWS: Final = 10_000
FAILED: Final = ROWS // 20
"""As many as `bulk.ended` makes of so many; they have no address to sign."""
OF_A_VIEW: Final = 0.9


def fill(here: Stage, rows: int = ROWS) -> list[str]:
    """The ids of some of them, first those that failed."""
    with psycopg.connect(here.environ["DATABASE_URL"], autocommit=True) as postgres, postgres.cursor() as cursor:
        with bulk.without_triggers(cursor):
            bulk.ended(cursor, owners=[here.tenant_id], count=rows)
            bulk.inputs(cursor)
        cursor.execute("VACUUM ANALYZE runs")
        cursor.execute("SELECT run_id::text FROM runs ORDER BY status = 'FAILED' DESC, random() LIMIT 5000")
        return [run_id for (run_id,) in cursor.fetchall()]


def reads(api_key: str, paths: list[str]) -> Callable[[], bytes]:
    head = f"HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api_key}\r\n\r\n"
    each = itertools.cycle(f"GET {path} {head}".encode() for path in paths)
    return lambda: next(each)


@dataclass(frozen=True)
class Seen:
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float


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
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    given = parser.parse_args()
    with stage() as here, ExitStack() as stack:
        our_api = stack.enter_context(ours(here))
        view = stack.enter_context(running("bare view", "bench.peers.bare_view:application", here))
        driver = stack.enter_context(running("bare driver", "bench.peers.bare_get:application", here))
        some = fill(here)
        failed, run_ids = some[:FAILED], some[FAILED:]
        by_id = reads(here.api_key, [f"/v1/runs/{run_id}" for run_id in run_ids])
        pairs = {
            "poll": (our_api, by_id),
            "poll of a failed run": (our_api, reads(here.api_key, [f"/v1/runs/{run_id}" for run_id in failed])),
            "view with a key": (view, by_id),
            "view without a key": (view, reads(here.api_key, [f"/bare/{run_id}" for run_id in run_ids])),
            "raw driver": (driver, by_id),
            "list of 20": (our_api, reads(here.api_key, ["/v1/runs?limit=20"])),
        }
        seen = measured(pairs, rounds=given.rounds, seconds=given.seconds)
    for name, found in seen.items():
        tell(name, found.per_second, "/s")
        tell(f"{name}: p50", found.p50_ms, "ms")
        tell(f"{name}: p99", found.p99_ms, "ms")
        tell(f"{name}: processor time of the server", found.cpu_ms, "ms")
    for name in ("view with a key", "view without a key", "raw driver"):
        aim = OF_A_VIEW if name == "view with a key" else None
        tell(f"poll / {name}, by rate", seen["poll"].per_second / seen[name].per_second, "x", at_least=aim)
        tell(f"poll / {name}, by processor time", seen[name].cpu_ms / seen["poll"].cpu_ms, "x")


if __name__ == "__main__":
    main()
