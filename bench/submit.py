"""`POST /v1/runs` at 16 clients, as ratios within one run: ours, a bare view with the same effects, FastAPI with them.

    make bench B=submit

The bare view does the three trips, two statements and the send with raw drivers and without any logic. FastAPI needs
`python -m venv .venv-bench && .venv-bench/bin/pip install -r requirements/bench.txt`; without it that line is left out.
The servers take turns, so that a machine that is slow for a while is slow for all; the ratio is that of the medians.
CPU is that of the server's processes alone, for each request: it stays true on a busy machine.
"""

import argparse
import itertools
import json
import os
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench._load import Figures, drive
from bench._servers import REPOSITORY, Server, Stage, ours, running, stage

BODY = {
    "pack_type": "probe",
    "inputs": {"sleep_ms": 5, "cost_usd": "0.0100"},
    "reservation": {"max_cost_usd": "0.2500", "timebox_sec": 30},
    "options": {"inline": 0},
}
OTHER_PYTHON = REPOSITORY / ".venv-bench" / "bin" / "python"


def requests(api_key: str, name: str) -> Callable[[], bytes]:
    body = json.dumps(BODY).encode()
    head = (
        f"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api_key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nIdempotency-Key: {name}-{os.getpid()}-"
    ).encode()
    numbers = itertools.count()
    return lambda: head + b"%08d\r\n\r\n" % next(numbers) + body


def servers(stack: ExitStack, here: Stage) -> list[Server]:
    found = [
        stack.enter_context(ours(here)),
        stack.enter_context(running("bare", "bench.peers.bare_submit:application", here)),
    ]
    if Path(OTHER_PYTHON).exists():
        found.append(
            stack.enter_context(
                running("fastapi", "bench.peers.fastapi_submit:app", here, interface="asgi", python=str(OTHER_PYTHON))
            )
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sqs-latency-ms", type=float, default=0.0)
    given = parser.parse_args()
    with stage(sqs_latency_ms=given.sqs_latency_ms) as here, ExitStack() as stack:
        chosen = servers(stack, here)
        asked = {server.name: requests(here.api_key, server.name) for server in chosen}
        for server in chosen:
            drive(server.port, asked[server.name], clients=given.clients, seconds=2)
        seen: dict[str, list[Figures]] = {server.name: [] for server in chosen}
        cpu: dict[str, list[float]] = {server.name: [] for server in chosen}
        for _ in range(given.rounds):
            for server in chosen:
                before = server.cpu_seconds()
                figures = drive(server.port, asked[server.name], clients=given.clients, seconds=given.seconds)
                assert set(figures.statuses) == {202}, (server.name, figures.statuses)
                cpu[server.name].append((server.cpu_seconds() - before) / sum(figures.statuses.values()) * 1_000)
                seen[server.name].append(figures)
    tell(seen, cpu)


def tell(seen: dict[str, list[Figures]], cpu: dict[str, list[float]]) -> None:
    rate = {name: statistics.median(one.per_second for one in rounds) for name, rounds in seen.items()}
    for name, rounds in seen.items():
        p50 = statistics.median(one.p50_ms for one in rounds)
        p99 = statistics.median(one.p99_ms for one in rounds)
        print(
            f"{name:8s} {rate[name]:7.0f}/s   p50 {p50:6.1f} ms   p99 {p99:6.1f} ms = {p99 / p50:4.1f} p50"
            f"   CPU {statistics.median(cpu[name]):5.2f} ms"
        )
    for name, others in rate.items():
        if name != "ours":
            saved = statistics.median(cpu[name]) / statistics.median(cpu["ours"])
            print(f"ours / {name:8s} {rate['ours'] / others:5.2f} by rate   {saved:5.2f} by CPU")


if __name__ == "__main__":
    main()
