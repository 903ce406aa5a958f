"""200 hostile connections of nine kinds against a two-process API, and one honest client (HRD-09 to HRD-12)."""

import http.client
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest
from django.db import connection

from dpp_project.constants import RATE_LIMIT_PER_MINUTE_DEFAULT
from tests.gear.builders.shop import RUNS, Shop, a_body, a_request_key, a_shop
from tests.gear.faults.hostile_clients import KINDS
from tests.gear.servers import worker as gear
from tests.gear.servers.live_api import Api, Client, a_product_api
from tests.gear.waiting import wait_until
from tests.proving import proofs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.contract("HRD-09", "HRD-10", "HRD-11", "HRD-12"),
    pytest.mark.django_db(transaction=True),
]

CONNECTIONS = 200
ROUNDS = 3
WARM_REQUESTS = 100
REQUESTS = 600
PACE_SECONDS = 0.02
"""So the honest client's requests are spread over the siege, of whose first moments it would otherwise tell alone."""
SIEGE_SECONDS = 15
MOST_TIMES_ALONE = 8
"""At the p99, over a siege from its first moment on: 5 was measured, 53 ms for 11, where the hostile clients have their
own processor time from the same two cores."""
MOST_MEMORY_MIB = 300
STATEMENT_ROWS = 40_000


def p99_ms(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.99)] * 1_000


def honest(api: Api, shop: Shop, *, requests: int) -> list[float]:
    """One customer over one connection: three reads to a submit, each answered as it should be."""
    took = []
    pace = threading.Event()
    client = http.client.HTTPConnection("127.0.0.1", api.port, timeout=30)
    auth = {"Authorization": f"Bearer {shop.issued.plaintext}", "Content-Type": "application/json"}
    try:
        for number in range(requests):
            began = time.perf_counter()
            if number % 4:
                client.request("GET", f"{RUNS}?limit=5", headers=auth)
            else:
                headers = auth | {"Idempotency-Key": a_request_key()}
                client.request("POST", RUNS, json.dumps(a_body(reservation={"max_cost_usd": "0.0050"})), headers)
            answer = client.getresponse()
            answer.read()
            took.append(time.perf_counter() - began)
            pace.wait(PACE_SECONDS - took[-1])
            assert answer.status == (200 if number % 4 else 202), answer.status
    finally:
        client.close()
    return took


@dataclass
class Siege:
    counted: dict[str, int] = field(default_factory=dict)

    def of(self, kind: str) -> dict[str, int]:
        return {name.removeprefix(f"{kind} "): count for name, count in self.counted.items() if name.startswith(kind)}


@contextmanager
def besieged(api: Api, key: str) -> Iterator[Siege]:
    command = [sys.executable, "-m", "tests.gear.faults.hostile_clients", str(api.port), key]
    with subprocess.Popen(
        [*command, str(CONNECTIONS), str(SIEGE_SECONDS)], cwd=gear.ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        siege = Siege()
        try:
            yield siege
            siege.counted = json.loads(process.stdout.readline())
            assert process.wait(30) == 0
        finally:
            process.kill()


class Memory:
    """The most that a process of the API held at once, looked at four times a second."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.most_mib = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(0.25):
            for pid in self._api.workers():
                status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
                kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
                self.most_mib = max(self.most_mib, kib / 1_024)


def with_a_long_statement(shop: Shop) -> None:
    """A reading of it holds more than the kernel's buffers do."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_entries (entry_id, tenant_id, kind, amount_usd_micros, reference, reason, actor)"
            " SELECT gen_random_uuid(), %s, 'ADJUST', CASE n %% 2 WHEN 0 THEN 1 ELSE -1 END, 'ref-' || n,"
            " repeat('x', 100), 'test' FROM generate_series(1, %s) n",
            [shop.tenant.pk, STATEMENT_ROWS],
        )


def counter(api: Api) -> float:
    """What both processes have counted so far, by the page of the one that answers."""
    with Client(socket.create_connection(("127.0.0.1", api.port), 30, source_address=("127.0.0.3", 0))) as client:
        client.send(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")  # not from where the flood came
        lines = client.receive()
    assert lines.status == 200, lines.body
    found = [line for line in lines.body.decode().splitlines() if line.startswith("dpp_http_request_seconds_count{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)


def test_hrd_10_200_hostile_connections_take_nothing_from_an_honest_client(tmp_path: Path, shop: Shop) -> None:
    hostile = a_shop(
        submit_rate_per_minute=RATE_LIMIT_PER_MINUTE_DEFAULT, poll_rate_per_minute=RATE_LIMIT_PER_MINUTE_DEFAULT
    )
    with_a_long_statement(hostile)
    alone: list[float] = []
    under: list[float] = []
    counted: list[float] = []
    with a_product_api(tmp_path, processes=2) as api, Memory(api) as memory:
        honest(api, shop, requests=WARM_REQUESTS)
        before = api.open_files()
        with besieged(api, hostile.issued.plaintext):  # each process meets each kind once: what it imports, it has
            honest(api, shop, requests=WARM_REQUESTS)
        for _ in range(ROUNDS):
            alone.append(p99_ms(honest(api, shop, requests=REQUESTS)))
            with besieged(api, hostile.issued.plaintext) as siege:
                under.append(p99_ms(honest(api, shop, requests=REQUESTS)))
            for kind in KINDS:
                assert siege.of(kind), f"{kind} did nothing"
            counted.append(counter(api))  # a process shows the page that it made within the last second
        print(alone, under, memory.most_mib, siege.counted)  # noqa: T201  also where what follows fails
        pids = api.workers()
        wait_until(lambda: api.open_files() <= before + 40, seconds=40, what="the siege's connections are closed")
    ratio = statistics.median(under) / statistics.median(alone)
    print(  # noqa: T201  the figures of the report
        f"\np99 alone {alone}, under siege {under} ms: {ratio:.2f} times; {memory.most_mib:.0f} MiB a process at most;"
        f" {json.dumps(siege.counted)}"
    )
    assert len(pids) == 2
    assert counted == sorted(counted), "counters ran backwards"
    assert ratio <= MOST_TIMES_ALONE
    assert memory.most_mib <= MOST_MEMORY_MIB
    assert len(shop.runs()) == (2 * WARM_REQUESTS + 2 * ROUNDS * REQUESTS) // 4
    assert hostile.runs() == []
    proofs.report(cases=CONNECTIONS * ROUNDS)
