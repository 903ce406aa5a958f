"""One SendMessage for each submit against grouping concurrent ones into SendMessageBatch, at 16 threads.

    make bench B=send

Grouped: a thread that finds no other sending takes what waits, up to ten, and sends it for all; no timer, no thread of
its own. `leaders` is how many may send at once. CPU is this process's, for each message: it is what a submit pays.

One run on two cores that were busy with other things:

    0 ms       one by one              5195/s   p50    2.5 ms   p99    8.7 ms   CPU    92 us
    0 ms       grouped, 1 leader      11998/s   p50    1.1 ms   p99    5.4 ms   CPU    63 us
    0 ms       grouped, 2 leaders     10198/s   p50    1.3 ms   p99    6.5 ms   CPU    98 us
    8 ms       one by one              1555/s   p50    9.8 ms   p99   17.5 ms   CPU   134 us
    8 ms       grouped, 1 leader        824/s   p50   17.6 ms   p99   27.8 ms   CPU    67 us
    8 ms       grouped, 2 leaders       918/s   p50   17.8 ms   p99   46.7 ms   CPU    89 us
    devstack   one by one               843/s   p50   11.4 ms   p99  149.3 ms   CPU   164 us
    devstack   grouped, 1 leader       1886/s   p50    2.8 ms   p99   66.0 ms   CPU    63 us
    devstack   grouped, 2 leaders      1988/s   p50    3.2 ms   p99   77.8 ms   CPU    83 us

So the product sends one by one. At a distance that a real queue has, a submit that waits for a group waits for the
group before it as well: twice the time, half the rate, for 50 us of CPU out of 1,500. Only an endpoint that is slow
for each request, as the embedded one is, gains, and there one by one is still more than the rest of a submit allows.
"""

import contextlib
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

from botocore.credentials import Credentials

from dpp_project.aws.sqs_sender import BATCH, QueueMessage, Sender, SendFailed

THREADS, SECONDS, ROUNDS = 16, 3.0, 3
BODY = "x" * 1_300
Send = Callable[[QueueMessage], None]


class Grouped:
    """Group commit, as plain as it can be; a per-entry failure is raised in the thread it belongs to."""

    def __init__(self, sender: Sender, *, leaders: int) -> None:
        self._sender, self._leaders = sender, leaders
        self._lock = threading.Lock()
        self._leading = 0
        self._waiting: list[tuple[QueueMessage, threading.Event, list[SendFailed]]] = []

    def send(self, message: QueueMessage) -> None:
        mine: tuple[QueueMessage, threading.Event, list[SendFailed]] = (message, threading.Event(), [])
        with self._lock:
            self._waiting.append(mine)
            leads = self._leading < self._leaders
            self._leading += leads
        if leads:
            self._lead()
        mine[1].wait()
        if mine[2]:
            raise mine[2][0]

    def _lead(self) -> None:
        while True:
            with self._lock:
                some, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
                if not some:
                    self._leading -= 1
                    return
            try:
                failed = self._sender.send_batch([message for message, _, _ in some])
            except SendFailed as error:
                failed = dict.fromkeys(range(len(some)), error)
            for at, (_, done, outcome) in enumerate(some):
                if at in failed:
                    outcome.append(failed[at])
                done.set()


def measured(send: Send) -> tuple[float, float, float, float]:
    """Messages a second, their p50 and p99 in ms, and CPU for each in microseconds."""
    took: list[list[float]] = [[] for _ in range(THREADS)]
    ends = time.perf_counter() + SECONDS

    def work(mine: list[float]) -> None:
        while (began := time.perf_counter()) < ends:
            send(QueueMessage(BODY))
            mine.append((time.perf_counter() - began) * 1_000)

    before = _cpu()
    threads = [threading.Thread(target=work, args=(mine,)) for mine in took]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(one for mine in took for one in mine)
    cpu_us = (_cpu() - before) / len(found) * 1e6
    return len(found) / SECONDS, statistics.median(found), found[int(len(found) * 0.99)], cpu_us


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def fake(latency_ms: float) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.gear.servers.fakesqs", "--latency-ms", str(latency_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


@contextlib.contextmanager
def devstack() -> Iterator[str]:
    yield os.environ["SQS_ENDPOINT_URL"]


def compare(name: str, endpoint: str) -> None:
    from boto3.session import Session

    queue_url = f"{endpoint}/000000000000/dpp-bench-send"
    if name == "devstack":
        Session().client("sqs", region_name="us-east-1", endpoint_url=endpoint).create_queue(QueueName="dpp-bench-send")
    sender = Sender(
        endpoint=endpoint,
        queue_url=queue_url,
        region="us-east-1",
        credentials=lambda: Credentials("test", "test"),
        timeout_seconds=5,
    )
    ways: dict[str, Send] = {
        "one by one": sender.send,
        "grouped, 1 leader": Grouped(sender, leaders=1).send,
        "grouped, 2 leaders": Grouped(sender, leaders=2).send,
        "grouped, 4 leaders": Grouped(sender, leaders=4).send,
    }
    seen: dict[str, list[tuple[float, float, float, float]]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, send in ways.items():
            seen[way].append(measured(send))
    sender.close()
    for way, rounds in seen.items():
        rate, p50, p99, cpu = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name:10s} {way:20s} {rate:7.0f}/s   p50 {p50:6.1f} ms   p99 {p99:6.1f} ms   CPU {cpu:5.0f} us")


def main() -> None:
    for name, where in (("0 ms", fake(0)), ("8 ms", fake(8)), ("devstack", devstack())):
        with where as endpoint:
            compare(name, endpoint)


if __name__ == "__main__":
    main()
