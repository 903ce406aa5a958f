"""Tasks that do nothing, and whole lives of runs, through one worker of ours and through others, in one run.

    make bench B=worker_pool        ARGS=--killed for what a killed worker's poll takes along

Each worker has four slots and finds the backlog there; the rate is from the first tenth to the last task. The queue of
those on SQS is tests/gear/servers/fakesqs.py with the latency of SQS in the same region; Redis and Postgres answer at
once. A life of ours is counted when its message is deleted: the run has been started, executed in a process of its own,
stored in S3, charged and committed. The others do nothing, keep nothing and charge nothing.

With `--killed` an idle worker is killed first, whose open poll then takes messages along: they are lost until their
visibility ends.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import _peers
from bench._figures import tell
from bench._peers import PeerFailed, rate_of
from bench._services import own_database
from bench.worker_throughput import READY_SECONDS, Queue, a_queue, a_worker, prepare, runs, tasks
from dpp_project.devstack import valkey
from dpp_project.processes import process_tree
from tests.gear.waiting import wait_until

if TYPE_CHECKING:
    import subprocess

LIFE_OF_STOCK: Final = 2.5
TASK_OF_STOCK: Final = 5.0
STOCK: Final = "stock Celery on SQS, processes"
"""What both are measured against."""
LOST_SECONDS: Final = 10.0
KILLED_MESSAGES: Final = 100


def ours(bodies: list[str], *, latency_ms: float, slots: int) -> float:
    with a_queue(latency_ms) as queue:
        queue.send(bodies)
        with a_worker(queue, concurrency=slots):
            return rate_of(lambda: int(queue.act("Stats").get("messages_deleted", 0)), len(bodies))


def on_sqs(pool: str, *, latency_ms: float, count: int, slots: int) -> float:
    with a_queue(latency_ms) as queue:
        environ = {"BENCH_POOL": pool}
        return _peers.rate("celery_sqs", broker=str(queue.port), tasks=count, slots=slots, environ=environ)


def on_redis(*, count: int, slots: int) -> float:
    with tempfile.TemporaryDirectory() as folder, valkey.running_valkey(Path(folder)) as server:
        return _peers.rate("celery_redis", broker=server.url, tasks=count, slots=slots)


def on_postgres(*, count: int, slots: int) -> float:
    with own_database() as url:
        return _peers.rate("procrastinate_postgres", broker=url, tasks=count, slots=slots)


def measure(*, count: int, latency_ms: float, slots: int) -> None:
    prepare()
    cases: dict[str, Callable[[], float]] = {
        "ours on SQS, a task": lambda: ours(tasks(count), latency_ms=latency_ms, slots=slots),
        "ours on SQS, a life": lambda: ours(runs(count), latency_ms=latency_ms, slots=slots),
        STOCK: lambda: on_sqs("prefork", latency_ms=latency_ms, count=count, slots=slots),
        "stock Celery on SQS, threads": lambda: on_sqs("threads", latency_ms=latency_ms, count=count, slots=slots),
        "stock Celery on Redis": lambda: on_redis(count=count * 2, slots=slots),
        "procrastinate on Postgres": lambda: on_postgres(count=count, slots=slots),
    }
    rates: dict[str, float] = {}
    failed = []
    for name, case in cases.items():
        try:
            rates[name] = case()
        except PeerFailed as error:
            failed.append(name)
            print(f"{name}: {error}", flush=True)
        else:
            tell(name, rates[name], "/s")
    life, task = rates["ours on SQS, a life"], rates["ours on SQS, a task"]
    for name, rate in rates.items():
        if not name.startswith("ours"):
            tell(f"a task of ours / {name}", task / rate, "x", at_least=TASK_OF_STOCK if name == STOCK else None)
            tell(f"a life of ours / {name}", life / rate, "x", at_least=LIFE_OF_STOCK if name == STOCK else None)
    if failed:
        raise SystemExit(f"not measured: {', '.join(failed)}")


# What a killed worker's poll takes along.


def lost(queue: Queue, worker: Callable[[], AbstractContextManager["subprocess.Popen[bytes]"]]) -> int:
    """Messages received and not finished, when nothing has been for a while."""

    def deleted() -> int:
        return int(queue.act("Stats").get("messages_deleted", 0))

    with worker() as idle:
        wait_until(lambda: queue.act("Stats").get("ReceiveMessage"), seconds=READY_SECONDS, what="a poll")
        process_tree.kill_tree(idle.pid)
    queue.send(tasks(KILLED_MESSAGES))
    with worker():
        done, last = 0, time.monotonic()
        while done < KILLED_MESSAGES and time.monotonic() - last < LOST_SECONDS:
            time.sleep(0.05)
            if (now := deleted()) > done:
                done, last = now, time.monotonic()
    return KILLED_MESSAGES - done


def after_a_kill(*, latency_ms: float, slots: int) -> None:
    prepare()
    with a_queue(latency_ms) as queue, tempfile.TemporaryDirectory() as folder:
        done = Path(folder) / "done"
        done.touch()
        environ = _peers.environ_of(broker=str(queue.port), slots=slots, done=done)
        stock = partial(_peers.worker, "celery_sqs", environ=environ, log=Path(folder) / "log")
        tell("lost after a killed stock Celery", lost(queue, stock), "")
    with a_queue(latency_ms) as queue:
        tell("lost after a killed worker of ours", lost(queue, partial(a_worker, queue, concurrency=slots)), "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=600)
    parser.add_argument("--latency-ms", type=float, default=8.0)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--killed", action="store_true")
    given = parser.parse_args()
    if given.killed:
        after_a_kill(latency_ms=given.latency_ms, slots=given.slots)
    else:
        measure(count=given.messages, latency_ms=given.latency_ms, slots=given.slots)


if __name__ == "__main__":
    main()
