"""The API's host against granian's own WSGI server under the same Django: submits, memory, start, and slow clients.

    make bench B=hosts

The two take turns. Then, for ours, the p99 of one honest client that reads its key's rights, alone and beside ten slow
bodies and three silent connections a process; granian's WSGI server would not answer it at all (`--both` shows that).
"""

import argparse
import itertools
import json
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench._load import Figures, drive
from bench._servers import WORKERS, Server, Stage, ours, running, stage
from bench.submit import BODY, requests

SLOW_BODIES, SILENT = 10, 3
REFERENCE = "tests.gear.servers.wsgi_reference:application"


def started(stack: ExitStack, here: Stage) -> list[Server]:
    found = []
    for name, server in (("ours", ours(here)), ("wsgi", running("wsgi", REFERENCE, here))):
        began = time.perf_counter()
        found.append(stack.enter_context(server))
        print(f"{name:5s} answers after {time.perf_counter() - began:5.2f} s, {found[-1].pss_mb():6.1f} MB of PSS")
    return found


@contextmanager
def slow_clients(port: int, api_key: str) -> Iterator[None]:
    """More than one for each process, since the kernel deals connections out as it likes."""
    length = len(json.dumps(BODY))
    head = (
        f"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api_key}\r\nIdempotency-Key: slow\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{"
    )
    with ExitStack() as stack:
        for _ in range(SLOW_BODIES * WORKERS):
            stack.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(head.encode())
        for _ in range(SILENT * WORKERS):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        yield


def beside_slow_clients(server: Server, api_key: str, *, rounds: int) -> None:
    asked = f"GET /v1/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api_key}\r\n\r\n".encode()
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(rounds):
        alone.append(drive(server.port, lambda: asked, clients=1, seconds=3).p99_ms)
        with slow_clients(server.port, api_key):
            try:
                beside.append(drive(server.port, lambda: asked, clients=1, seconds=3).p99_ms)
            except statistics.StatisticsError:
                print(f"{server.name}: no answer beside slow clients")
                return
    ratio = statistics.median(beside) / statistics.median(alone)
    print(
        f"{server.name}: p99 of an honest client {statistics.median(alone):5.1f} ms alone,"
        f" {statistics.median(beside):5.1f} ms beside slow ones = {ratio:4.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--sqs-latency-ms", type=float, default=0.0)
    parser.add_argument("--both", action="store_true")
    given = parser.parse_args()
    with stage(sqs_latency_ms=given.sqs_latency_ms) as here, ExitStack() as stack:
        servers = started(stack, here)
        asked = {server.name: requests(here.api_key, server.name) for server in servers}
        for server in servers:
            drive(server.port, asked[server.name], clients=given.clients, seconds=2)
        seen: dict[str, list[Figures]] = {server.name: [] for server in servers}
        cpu: dict[str, list[float]] = {server.name: [] for server in servers}
        turns = itertools.cycle((servers, servers[::-1]))
        for _ in range(given.rounds):
            for server in next(turns):
                before = server.cpu_seconds()
                figures = drive(server.port, asked[server.name], clients=given.clients, seconds=given.seconds)
                assert set(figures.statuses) == {202}, (server.name, figures.statuses)
                cpu[server.name].append((server.cpu_seconds() - before) / sum(figures.statuses.values()) * 1_000)
                seen[server.name].append(figures)
        for server in servers:
            rate = statistics.median(one.per_second for one in seen[server.name])
            p99 = statistics.median(one.p99_ms for one in seen[server.name])
            spent = statistics.median(cpu[server.name])
            print(
                f"{server.name:5s} {rate:7.0f} submits/s   p99 {p99:6.1f} ms   CPU {spent:5.2f} ms"
                f"   {server.pss_mb():6.1f} MB of PSS"
            )
        pairs = zip(seen["ours"], seen["wsgi"], strict=True)
        ratio = statistics.median(mine.per_second / theirs.per_second for mine, theirs in pairs)
        print(f"ours / wsgi {ratio:5.2f} by rate, the median of its rounds")
        for server in servers if given.both else servers[:1]:
            beside_slow_clients(server, here.api_key, rounds=3)


if __name__ == "__main__":
    main()
