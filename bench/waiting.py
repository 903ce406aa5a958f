"""What waiting costs: 2,000 clients that wait for a run each at one API process, and what others notice of them.

    make bench B=waiting

Memory is the server's, waiting minus not waiting. CPU is that of the server and of the Postgres session that looks for
all, in hundredths of a core. "commit to answer" is from the commit of a run's end to its answer's arrival at the
client, each 50 ms one, beside all that wait on; the load of the client itself, in this process, is in it. Submits are
measured in turns, with nobody waiting and with all: the ratio is that of the medians. `--rows` runs stand in the table.

Three runs on two cores with nothing else to do: 93 MB more; the server 3 to 6 %, the looks 5 % of a core; submits 0.96
to 1.06 of without; p95 52 ms in two of them and 1.3 s in one, whose cause is not known.
"""

import argparse
import asyncio
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Final

import psycopg

from bench._load import drive
from bench._servers import REPOSITORY, Server, Stage, ours, stage
from bench.get import fill
from bench.submit import requests as submits

OF_TENANT: Final = 50
_OPEN: Final = """
INSERT INTO runs (run_id, tenant_id, pack_type, profile_version, status, money_state, payload_hash, version,
                  reservation_max_cost_usd_micros, minimum_fee_usd_micros, retention_until, next_send_at, last_actor)
SELECT run_id, tenant_id, 'probe', 'bench', 'QUEUED', 'RESERVED', repeat('a', 64), 1, 250000, 5000,
       now() + interval '20 days', now() + interval '1 day', 'bench'
  FROM unnest(%s::uuid[], %s::text[]) AS wanted (run_id, tenant_id)
"""
_INPUTS: Final = """
INSERT INTO run_inputs (run_id, inputs, timebox_sec, min_reliability_score)
SELECT run_id, '{}', 30, 0.8 FROM unnest(%s::uuid[]) AS wanted (run_id)
"""
_HISTORY: Final = """
INSERT INTO run_history (run_id, version, at, actor, status, money_state, stage)
SELECT run_id, 1, clock_timestamp(), 'bench', 'QUEUED', 'RESERVED', NULL FROM unnest(%s::uuid[]) AS wanted (run_id)
"""
_END: Final = """
WITH ended AS (
    UPDATE runs SET version = 4, status = 'FAILED', money_state = 'REFUNDED', finalize_stage = 'COMMITTED',
                    finalize_token = 'x', finalize_claimed_at = now(), intent_status = 'FAILED',
                    intent_money_state = 'REFUNDED', intent_charge_usd_micros = 0, actual_cost_usd_micros = 0,
                    intent_reason_code = 'CANCELED_BY_OWNER', last_error_reason_code = 'CANCELED_BY_OWNER'
     WHERE run_id = %s RETURNING run_id)
INSERT INTO run_history (run_id, version, at, actor, status, money_state, stage)
SELECT run_id, 4, clock_timestamp(), 'bench', 'FAILED', 'REFUNDED', 'COMMITTED' FROM ended
"""


class Waits:
    """Clients in a thread of their own, each waiting for one run, and waiting again when its time is over."""

    def __init__(self, port: int, wanted: dict[uuid.UUID, str]) -> None:
        self._port, self._wanted = port, wanted
        self.answered_at: dict[uuid.UUID, float] = {}
        self.waiting = 0
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_until_complete, args=(self._all(),), daemon=True)
        self._stop = asyncio.Event()
        self._thread.start()

    async def _all(self) -> None:
        clients = [asyncio.ensure_future(self._one(run_id, key)) for run_id, key in self._wanted.items()]
        await self._stop.wait()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    async def _one(self, run_id: uuid.UUID, api_key: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        request = (
            f"GET /v1/runs/{run_id}?wait=55 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api_key}\r\n\r\n"
        )
        try:
            while True:
                writer.write(request.encode())
                self.waiting += 1
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
                body = await reader.readexactly(length)
                self.waiting -= 1
                if b'"FAILED"' in body:
                    self.answered_at[run_id] = time.perf_counter()
                    return
        finally:
            writer.close()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


def begun(server: Server) -> float:
    """Waits so far, by the server's own count: each has had its thread, and left it."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
    finally:
        connection.close()
    return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith("dpp_waits_begun_total{"))


@contextmanager
def waits(server: Server, wanted: dict[uuid.UUID, str]) -> Iterator[Waits]:
    before = begun(server)
    all_of_them = Waits(server.port, wanted)
    try:
        deadline = time.monotonic() + 50
        while begun(server) < before + len(wanted) and time.monotonic() < deadline:
            time.sleep(0.5)
        time.sleep(1)
        yield all_of_them
    finally:
        all_of_them.stop()


def open_runs(here: Stage, count: int) -> dict[uuid.UUID, str]:
    """Runs of as many tenants as they need, with the key that may wait for each."""
    made = subprocess.run(
        [sys.executable, "-m", "bench._tenants", str(-(-count // OF_TENANT))],
        cwd=REPOSITORY,
        env=here.environ,
        check=True,
        capture_output=True,
        text=True,
    )
    tenants = json.loads(made.stdout.splitlines()[-1])
    owners = {uuid.uuid4(): tenants[number // OF_TENANT] for number in range(count)}
    ids = list(owners)
    with psycopg.connect(here.environ["DATABASE_URL"], autocommit=True) as postgres:
        postgres.execute("ALTER TABLE runs DISABLE TRIGGER USER")
        postgres.execute(_OPEN, [ids, [owner["tenant_id"] for owner in owners.values()]])
        postgres.execute(_INPUTS, [ids])
        postgres.execute(_HISTORY, [ids])
        postgres.execute("VACUUM ANALYZE runs, run_history")
    return {run_id: owner["api_key"] for run_id, owner in owners.items()}


def looking_seconds(here: Stage) -> float:
    """CPU of the session that looks for all."""
    with psycopg.connect(here.environ["DATABASE_URL"]) as postgres:
        found = postgres.execute(
            "SELECT pid FROM pg_stat_activity WHERE query LIKE '%AS watched%' AND pid <> pg_backend_pid()"
        ).fetchall()
    total = 0
    for (pid,) in found:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def core_share(here: Stage, server: Server, seconds: float) -> tuple[float, float]:
    """Of one core: the server, and the session."""
    own, looking = server.cpu_seconds(), looking_seconds(here)
    time.sleep(seconds)
    return (server.cpu_seconds() - own) / seconds, (looking_seconds(here) - looking) / seconds


def lateness(here: Stage, clients: Waits, ids: list[uuid.UUID]) -> list[float]:
    committed: dict[uuid.UUID, float] = {}
    with psycopg.connect(here.environ["DATABASE_URL"], autocommit=True) as postgres:
        for run_id in ids:
            postgres.execute(_END, [run_id])
            committed[run_id] = time.perf_counter()
            time.sleep(0.05)
    deadline = time.monotonic() + 20
    while len(clients.answered_at) < len(ids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return sorted((clients.answered_at[one] - committed[one]) * 1_000 for one in ids if one in clients.answered_at)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--waiters", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--ends", type=int, default=200)
    given = parser.parse_args()
    one_process = {"DPP_API_WORKERS": "1", "DPP_API_CONNECTIONS_PER_ADDRESS": "5000"}
    with stage() as plain:
        here = replace(plain, environ=plain.environ | one_process)
        fill(here, given.rows)
        wanted = open_runs(here, given.waiters)
        with ours(here) as server:
            asked = submits(here.api_key, "waiting")
            drive(server.port, asked, clients=16, seconds=2)
            quiet_mb, quiet = server.pss_mb(), core_share(here, server, given.seconds)[0]
            without, beside = [], []
            for turn in range(given.rounds):
                without.append(drive(server.port, asked, clients=16, seconds=given.seconds).per_second)
                with waits(server, wanted) as clients:
                    if turn == 0:
                        own, looking = core_share(here, server, given.seconds)
                        print(
                            f"{clients.waiting} wait: {server.pss_mb() - quiet_mb:.0f} MB more than {quiet_mb:.0f} MB"
                        )
                        shares = f"the server {own:.1%} (quiet {quiet:.1%}), the looks in Postgres {looking:.1%}"
                        print(f"of a core: {shares}")
                    beside.append(drive(server.port, asked, clients=16, seconds=given.seconds).per_second)
            ratio = statistics.median(beside) / statistics.median(without)
            print(f"submits beside them {ratio:.2f} of without ({beside} / {without})")
            with waits(server, wanted) as clients:
                late = lateness(here, clients, list(wanted)[: given.ends])
                p95 = late[int(len(late) * 0.95)]
                print(f"commit to answer: p50 {statistics.median(late):.0f} ms   p95 {p95:.0f} ms   of {len(late)}")


if __name__ == "__main__":
    main()
