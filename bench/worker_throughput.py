"""Whole lives of runs through one worker, against tasks that do nothing on the same transport and queue.

    make bench B=worker_throughput

A life is what a worker does for a run of the probe pack that does nothing: start, lease, a process of its own for the
pack, envelope to S3, claim, settle, commit. The queue is tests/gear/servers/fakesqs.py with the latency of SQS in the
same region; Postgres, Redis and S3 are the real services of the bench, which share this machine's cores with the
worker.
Where nothing else runs, a task is bound by the latency of the queue and a life by the cores: the CPU of each part says
what a life is made of, and that figure is the one that other work on the machine disturbs least.
"""

import argparse
import http.client
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
from celery import shared_task

from bench import _cpu
from bench._figures import tell
from dpp_project.processes import process_tree

ROOT = Path(__file__).resolve().parents[1]
READY_SECONDS = 60.0
PROGRESS_SECONDS = 20.0
BATCH = 10
WARM = 16
SETTLED_SECONDS = 3.0
LEAST_MS = 0.05
MOST_ASKED = {"task": None, "life": 0.45}
"""As `test_execution_counts` holds it."""
ACTIONS = ("ReceiveMessage", "DeleteMessageBatch", "DeleteMessage", "ChangeMessageVisibilityBatch")


@shared_task(name="bench.nothing")
def nothing() -> None:
    """What a life is compared with."""


class Queue:
    def __init__(self, port: int) -> None:
        self.port = port
        self._http = http.client.HTTPConnection("127.0.0.1", port)

    def act(self, action: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        self._http.request("POST", "/", json.dumps(document or {}), {"X-Amz-Target": f"AmazonSQS.{action}"})
        found: dict[str, Any] = json.loads(self._http.getresponse().read())
        return found

    def send(self, bodies: list[str]) -> None:
        for start in range(0, len(bodies), BATCH):
            some = bodies[start : start + BATCH]
            self.act(
                "SendMessageBatch",
                {"Entries": [{"Id": str(at), "MessageBody": body} for at, body in enumerate(some)]},
            )

    def wait_until_deleted(self, count: int) -> None:
        seen, last = 0, time.monotonic()
        while seen < count:
            time.sleep(0.02)
            now = self.act("Stats").get("messages_deleted", 0)
            if now > seen:
                seen, last = now, time.monotonic()
            if time.monotonic() - last > PROGRESS_SECONDS:
                raise SystemExit(f"{count - seen} of {count} messages were never finished")


@contextmanager
def a_queue(latency_ms: float) -> Iterator[Queue]:
    command = [sys.executable, "-m", "tests.gear.servers.fakesqs", "--latency-ms", str(latency_ms)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Queue(int(process.stdout.readline()))
        finally:
            process.kill()


@contextmanager
def a_worker(queue: Queue, *, concurrency: int) -> Iterator["subprocess.Popen[bytes]"]:
    environ = os.environ | {
        "SQS_ENDPOINT_URL": f"http://127.0.0.1:{queue.port}",
        "DPP_QUEUE_URL": f"http://127.0.0.1:{queue.port}/0/runs",
        "DPP_WORKER_CONCURRENCY": str(concurrency),
        "DPP_LOG_LEVEL": "WARNING",
        "DPP_ENABLE_PROBE_PACK": "1",
        "DPP_SERVICE": "worker",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "celery", "-A", "dpp_project.celery", "worker", "-I", "bench.worker_throughput"]
    process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not queue.act("Stats").get("ReceiveMessage"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the worker does not poll")
            time.sleep(0.05)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process_tree.kill_tree(process.pid)
            process.wait()


def tasks(count: int) -> list[str]:
    from dpp_project.celery_sqs import celery_message

    return [
        celery_message.pack_celery_message(task="bench.nothing", kwargs={}, queue="runs", trace_id=None)
        for _ in range(count)
    ]


def runs(count: int) -> list[str]:
    """Held and due; their messages."""
    from runs.submit.wake_worker import Wakeup
    from tests.gear.builders import recovery

    tenant = recovery.funded()
    price = recovery.FUNDS_MICROS // (count + 1)
    made = [
        recovery.queued(
            tenant, pack_type="probe", inputs={}, timebox_sec=20, reserved_micros=price,
            idempotency_key=secrets.token_hex(8),
        )
        for _ in range(count)
    ]  # fmt: skip
    return [Wakeup.of(run).message().body for run in made]


@dataclass(frozen=True)
class Measured:
    """Of one message: how many a second, milliseconds of CPU by part, requests to the queue by action."""

    rate: float
    cpu: dict[str, float]
    asked: dict[str, float]


def measured(bodies: list[str], warm: list[str], *, latency_ms: float, concurrency: int) -> Measured:
    """From the first message to the last delete."""
    with a_queue(latency_ms) as queue, a_worker(queue, concurrency=concurrency):
        queue.send(warm)
        queue.wait_until_deleted(len(warm))
        time.sleep(SETTLED_SECONDS)  # the box loads its packs, which is no part of a life
        queue.act("Reset")
        before, began = _cpu.by_part(), time.monotonic()
        queue.send(bodies)
        queue.wait_until_deleted(len(bodies))
        took, used = time.monotonic() - began, _cpu.between(before, _cpu.by_part())
        asked = queue.act("Stats")
    count = len(bodies)
    return Measured(
        rate=count / took,
        cpu={part: spent / count for part, spent in used.items()},
        asked={action: asked.get(action, 0) / count for action in ACTIONS},
    )


def idle_start_ms(*, latency_ms: float, count: int = 40) -> list[float]:
    """On an idle worker, one run after another: from its hold being marked to PROCESSING, by the database's clock."""
    from runs.models import RunHistory
    from runs.submit.wake_worker import Wakeup
    from tests.gear.builders import recovery

    tenant, waits = recovery.funded(), []
    with a_queue(latency_ms) as queue, a_worker(queue, concurrency=2):
        for at in range(count):
            run = recovery.queued(tenant, pack_type="probe", inputs={}, timebox_sec=20, reserved_micros=10_000)
            queue.send([Wakeup.of(run).message().body])
            queue.wait_until_deleted(at + 1)
            held, started = RunHistory.objects.filter(run_id=run.run_id, version__in=(1, 2)).order_by("version")
            waits.append((started.at - held.at).total_seconds() * 1_000)
    return sorted(waits[5:])


def prepare() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")
    django.setup()
    from django.core.management import call_command

    from budget.rebuild import rebuild
    from dpp_project.aws import provisioning

    call_command("migrate", interactive=False, verbosity=0)
    provisioning.provision_aws(dry_run=False)
    rebuild.rebuild_all()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=600)
    parser.add_argument("--latency-ms", type=float, default=8.0)
    parser.add_argument("--concurrency", type=int, default=4)
    given = parser.parse_args()
    prepare()
    found = {}
    for name, make in (("task", tasks), ("life", runs)):
        found[name] = one = measured(
            make(given.messages), make(WARM), latency_ms=given.latency_ms, concurrency=given.concurrency
        )
        tell(f"a {name}", one.rate, "/s")
        tell(
            f"a {name}: requests to SQS to receive and delete",
            sum(one.asked.values()),
            "each",
            at_most=MOST_ASKED[name],
        )
        tell(f"a {name}: processor time without stand-ins", _cpu.ours(one.cpu), "ms")
        for part, each in sorted(one.cpu.items(), key=lambda part: -part[1]):
            if each >= LEAST_MS:
                tell(f"a {name}: processor time of {part}", each, "ms")
    waits = idle_start_ms(latency_ms=given.latency_ms)
    tell("idle, from the hold to PROCESSING: p50", waits[len(waits) // 2], "ms")


if __name__ == "__main__":
    main()
