"""Tasks a second through a Celery worker: stock SQS transport with stock pools, and ours with its slots, in one run.

    make bench B=worker_pool

The queue is tests/gear/servers/fakesqs.py with the latency of SQS in the same region; the task does nothing, so what is
measured is receiving, handing over and acknowledging. `lost` are messages received and not finished when progress
ended: they would come again after their visibility timeout. The last two rows kill an idle worker first, whose open
poll then takes messages along.

On two busy cores, 600 messages, 8 ms: stock 43 tasks a second with processes, 30 with threads, ours 285, four at once;
52, 54 and 283 at eight.
"""

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import celery

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

PROGRESS_SECONDS = 4.0
READY_SECONDS = 20.0
BATCH = 10
CASES = (
    ("stock", "prefork", False),
    ("stock", "threads", False),
    ("ours", "slots", False),
    ("stock", "prefork", True),
    ("ours", "slots", True),
)


def stock_app() -> celery.Celery:
    """Celery with kombu's own transport, set as well as it can be."""
    port = os.environ["BENCH_PORT"]
    app = celery.Celery("stock", broker=f"sqs://test:test@127.0.0.1:{port}")
    app.conf.update(
        broker_transport_options={
            "region": "us-east-1",
            "predefined_queues": {"runs": {"url": f"http://127.0.0.1:{port}/0/runs"}},
            "polling_interval": 0,
            "wait_time_seconds": 5,
            "is_secure": False,
        },
        task_default_queue="runs",
        task_acks_late=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
    )
    return app


if os.environ.get("BENCH_PORT"):
    app: Any
    if os.environ["BENCH_TRANSPORT"] == "stock":
        app = stock_app()
    else:
        from dpp_project.celery import app as dpp_app

        app = dpp_app

    @app.task(name="bench.nothing")  # type: ignore[untyped-decorator]
    def nothing() -> None:
        """Does nothing."""


@dataclass(frozen=True)
class Fake:
    port: int

    def act(self, action: str, document: dict[str, object] | None = None) -> dict[str, int]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(
                "POST", "/", json.dumps(document or {}), {"X-Amz-Target": f"AmazonSQS.{action}", "Connection": "close"}
            )
            found: dict[str, int] = json.loads(connection.getresponse().read())
            return found
        finally:
            connection.close()


@contextmanager
def fake(latency_ms: float) -> Iterator[Fake]:
    command = [sys.executable, "-m", "tests.gear.servers.fakesqs", "--latency-ms", str(latency_ms)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Fake(int(process.stdout.readline()))
        finally:
            process.kill()


@contextmanager
def worker(queue: Fake, *, transport: str, pool: str, concurrency: int) -> Iterator["subprocess.Popen[bytes]"]:
    environ = os.environ | {
        "BENCH_PORT": str(queue.port),
        "BENCH_TRANSPORT": transport,
        "SQS_ENDPOINT_URL": f"http://127.0.0.1:{queue.port}",
        "DPP_QUEUE_URL": f"http://127.0.0.1:{queue.port}/0/runs",
        "DPP_LOG_LEVEL": "WARNING",
        "DPP_SERVICE": "worker",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "celery", "-A", "bench.worker_pool", "worker", "-c", str(concurrency)]
    if transport == "stock":
        command += ["-P", pool]
    process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_poll(queue, process)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for_poll(queue: Fake, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not queue.act("Stats").get("ReceiveMessage"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("the worker does not poll")
        time.sleep(0.05)


def measure(queue: Fake, *, transport: str, pool: str, concurrency: int, messages: int) -> tuple[float, int]:
    """Tasks a second from the first message to the last delete, and how many were received and never finished."""
    from tests.gear.servers.worker import envelope

    with worker(queue, transport=transport, pool=pool, concurrency=concurrency):
        began = last = time.monotonic()
        for start in range(0, messages, BATCH):
            entries = [
                {"Id": str(at), "MessageBody": envelope("bench.nothing", {})}
                for at in range(min(BATCH, messages - start))
            ]
            queue.act("SendMessageBatch", {"Entries": entries})
        done = 0
        while done < messages and time.monotonic() - last < PROGRESS_SECONDS:
            time.sleep(0.05)
            now = queue.act("Stats").get("messages_deleted", 0)
            if now > done:
                done, last = now, time.monotonic()
        return done / (last - began) if done else 0.0, messages - done


def abandon_a_poll(queue: Fake, *, transport: str, pool: str, concurrency: int) -> None:
    with worker(queue, transport=transport, pool=pool, concurrency=concurrency) as process:
        children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
        process.kill()
        for child in children.stdout.split():
            os.kill(int(child), signal.SIGKILL)
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_500)
    parser.add_argument("--latency-ms", type=float, default=8.0)
    parser.add_argument("--concurrency", type=int, default=4)
    given = parser.parse_args()
    rates: dict[tuple[str, str, bool], float] = {}
    print(f"{'transport':10} {'pool':8} {'killed before':14} {'tasks/s':>8} {'lost':>5} {'x stock prefork':>16}")
    for case in CASES:
        transport, pool, killed = case
        with fake(given.latency_ms) as queue:
            if killed:
                abandon_a_poll(queue, transport=transport, pool=pool, concurrency=given.concurrency)
            rates[case], lost = measure(
                queue, transport=transport, pool=pool, concurrency=given.concurrency, messages=given.messages
            )
        ratio = rates[case] / rates["stock", "prefork", False]
        print(f"{transport:10} {pool:8} {killed!s:14} {rates[case]:8.0f} {lost:5} {ratio:16.2f}", flush=True)


if __name__ == "__main__":
    main()
