"""`POST /v1/runs` at 16 clients, as ratios within one run: ours, a bare view with the same effects, FastAPI with them.

    make bench B=submit

The bare view does the three trips, two statements and the send with raw drivers and without any logic. FastAPI does
them by SQLAlchemy's async ORM over asyncpg, in an environment of its own that is made here (`bench/_peers.py`).
The servers take turns, so that a machine that is slow for a while is slow for all; the ratio is that of the medians.
CPU is that of the server's processes alone, for each request: it stays true on a busy machine.
"""

import argparse
import itertools
import json
import os
import statistics
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from bench import _peers
from bench._figures import tell as figure
from bench._load import Figures, drive
from bench._peers import PeerFailed
from bench._servers import Server, Stage, ours, running, stage

BODY = {
    "pack_type": "probe",
    "inputs": {"sleep_ms": 5, "cost_usd": "0.0100"},
    "reservation": {"max_cost_usd": "0.2500", "timebox_sec": 30},
    "options": {"inline": 0},
}
AIMS = {"bare": 0.85, "fastapi": 2.5}


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
    try:
        python = _peers.python("fastapi_submit")
    except PeerFailed as error:
        print(error, flush=True)
        return found
    app = "bench.peers.fastapi_submit:app"
    return [*found, stack.enter_context(running("fastapi", app, here, interface="asgi", python=python))]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3)
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


def tell(seen: dict[str, list[Figures]], cpu: dict[str, list[float]], aims: Mapping[str, float] = AIMS) -> None:
    """The median of the rounds; ratios of ours to each of the others."""
    rate = {name: statistics.median(one.per_second for one in rounds) for name, rounds in seen.items()}
    for name, rounds in seen.items():
        figure(name, rate[name], "/s")
        figure(f"{name}: p50", statistics.median(one.p50_ms for one in rounds), "ms")
        figure(f"{name}: p99", statistics.median(one.p99_ms for one in rounds), "ms")
        figure(f"{name}: processor time of the server", statistics.median(cpu[name]), "ms")
    for name, others in rate.items():
        if name != "ours":
            saved = statistics.median(cpu[name]) / statistics.median(cpu["ours"])
            figure(f"ours / {name}, by rate", rate["ours"] / others, "x", at_least=aims.get(name))
            figure(f"ours / {name}, by processor time", saved, "x")


if __name__ == "__main__":
    main()
