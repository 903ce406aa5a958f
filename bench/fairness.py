"""How long a quiet tenant's run of 5 ms waits: alone, beside another's 8 runs of 30 s, and without the express queue.

    make bench B=fairness        ARGS=--one-queue for the last

One worker with four slots, as the product starts it, on the services of the bench. A wait is from the run's hold to its
start, by the database's clock. The flood is there before the quiet runs come, one after the other.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from bench._figures import tell
from bench.worker_throughput import prepare

if TYPE_CHECKING:
    from tenants.models import Tenant

ROOT = Path(__file__).resolve().parents[1]
SLOTS = 4
FLOOD, FLOOD_MS = 8, 30_000
QUIET, QUIET_MS = 20, 5
MOST_SECONDS = 90.0
OF_ALONE = 1.3
EXPRESS_NAME = "dpp-runs-express"


@contextmanager
def a_worker(*, express: bool) -> Iterator[None]:
    environ = os.environ | {"DPP_WORKER_CONCURRENCY": str(SLOTS), "DPP_SERVICE": "worker", "DPP_LOG_LEVEL": "WARNING"}
    environ |= {"DPP_ENABLE_PROBE_PACK": "1", "DPP_EXPRESS_QUEUE_URL": _express_url() if express else ""}
    command = [sys.executable, "-m", "celery", "-A", "dpp_project.celery", "worker"]
    process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _express_url() -> str:
    return os.environ["DPP_QUEUE_URL"].rpartition("/")[0] + f"/{EXPRESS_NAME}"


def waits(*, flooded: bool, express: bool) -> list[float]:
    """Seconds of each quiet run; one that has not started within MOST_SECONDS counts as that."""
    from runs.models import Run
    from runs.states import Status
    from runs.submit import wake_worker
    from runs.submit.wake_worker import Lane, Wakeup
    from tests.gear.builders import recovery

    recovery.empty_queues()
    quiet, greedy = recovery.funded(), recovery.funded()

    def buy(tenant: "Tenant", sleep_ms: int, open_runs: int) -> Run:
        run = recovery.queued(
            tenant, pack_type="probe", inputs={"sleep_ms": sleep_ms}, timebox_sec=60, reserved_micros=10_000
        )
        wake_worker.send_wakeup(Wakeup.of(run, lane=Lane.of(open_runs)))
        return run

    def started(run: Run) -> bool:
        return Run.objects.filter(run_id=run.run_id).exclude(status=Status.QUEUED).exists()

    with a_worker(express=express):
        warm = buy(quiet, QUIET_MS, 0)
        _until(lambda: started(warm))
        if flooded:
            flood = [buy(greedy, FLOOD_MS, at) for at in range(FLOOD)]
            _until(lambda: sum(started(run) for run in flood) >= SLOTS)
        found = []
        for _ in range(QUIET):
            run = buy(quiet, QUIET_MS, 0)
            began = time.monotonic()
            _until(partial(started, run))
            found.append(time.monotonic() - began)
            if found[-1] >= MOST_SECONDS or sum(found) >= MOST_SECONDS:
                break
    return sorted(found)


def _until(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while not look() and time.monotonic() < deadline:
        time.sleep(0.005)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--one-queue", action="store_true", help="also without the express queue: a minute more")
    given = parser.parse_args()
    os.environ["DPP_EXPRESS_QUEUE_URL"] = _express_url()
    os.environ["DPP_ENABLE_PROBE_PACK"] = "1"
    prepare()
    from dpp_project.process_env import ENV
    from runs.submit import wake_worker

    cases = {"alone": (False, True), "beside the flood": (True, True), "beside the flood, one queue": (True, False)}
    medians: dict[str, float] = {}
    for name, (flooded, express) in cases.items():
        if not express and not given.one_queue:
            continue
        url = _express_url() if express else None
        env = ENV.model_copy(update={"DPP_EXPRESS_QUEUE_URL": url})
        with mock.patch.object(wake_worker, "ENV", env):
            found = waits(flooded=flooded, express=express)
        medians[name] = found[len(found) // 2]
        tell(f"a quiet tenant's wait {name}: p50", medians[name] * 1_000, "ms")
        tell(f"a quiet tenant's wait {name}: p95", found[min(len(found) - 1, len(found) * 95 // 100)] * 1_000, "ms")
    tell("its median beside the flood / alone", medians["beside the flood"] / medians["alone"], "x", at_most=OF_ALONE)


if __name__ == "__main__":
    main()
