"""`POST /api/auth-errors` at 16 clients against a bare INSERT through the same API, as a ratio within one run.

    make bench B=report

The bare one is our API too: key, rate, strict JSON and model are the same, and then one row is inserted as it came.
What lies between is the price of masking, of reading the frames, and of the event in the same statement. The trace
has 40 frames and a cause. The servers take turns; the ratio is that of the medians, and CPU that of the server alone.
"""

import argparse
import itertools
import json
import os
from collections.abc import Callable
from contextlib import ExitStack

from bench._load import Figures, drive
from bench._servers import running, stage
from bench.submit import tell

FRAMES = "".join(f"\n\tat com.acme.auth.Filter{n}.doFilter(Filter{n}.java:{n})" for n in range(40))
CAUSE = "\nCaused by: com.acme.Late: late\n\tat com.acme.Clock.now(Clock.java:1)"
BODY = {
    "occurredAt": "2026-03-01T12:00:00+09:00",
    "httpStatus": 401,
    "exceptionClass": "com.acme.auth.TokenExpired",
    "exceptionMessage": "token of session 7 has expired",
    "stacktrace": f"com.acme.auth.TokenExpired: gone{FRAMES}{CAUSE}",
    "requestUri": "/api/orders",
    "httpMethod": "GET",
}


def requests(api_key: str, name: str) -> Callable[[], bytes]:
    length = len(json.dumps(BODY | {"requestId": f"{name}-{os.getpid()}-{0:08d}"}))
    head = (
        f"POST /api/auth-errors HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api_key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()
    numbers = itertools.count()
    return lambda: head + json.dumps(BODY | {"requestId": f"{name}-{os.getpid()}-{next(numbers):08d}"}).encode()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with stage() as here, ExitStack() as stack:
        apps = {"ours": "dpp_project.asgi:application", "bare": "bench.peers.bare_report:application"}
        here.environ.update(DPP_SERVICE="api")
        chosen = [stack.enter_context(running(name, app, here, interface="asgi")) for name, app in apps.items()]
        asked = {server.name: requests(here.api_key, server.name) for server in chosen}
        for server in chosen:
            drive(server.port, asked[server.name], clients=given.clients, seconds=2)
        seen: dict[str, list[Figures]] = {server.name: [] for server in chosen}
        cpu: dict[str, list[float]] = {server.name: [] for server in chosen}
        for _ in range(given.rounds):
            for server in chosen:
                before = server.cpu_seconds()
                figures = drive(server.port, asked[server.name], clients=given.clients, seconds=given.seconds)
                assert set(figures.statuses) == {201}, (server.name, figures.statuses)
                cpu[server.name].append((server.cpu_seconds() - before) / sum(figures.statuses.values()) * 1_000)
                seen[server.name].append(figures)
    tell(seen, cpu, {"bare": 0.80})


if __name__ == "__main__":
    main()
