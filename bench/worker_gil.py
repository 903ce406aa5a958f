"""What a pack that talks costs the other slots of its worker, which share one interpreter with the slot that listens.

    make bench B=worker_gil

A pack logs 10,000 frames as fast as it can, one alone and then four at once, and each becomes a line of the worker's
log, as it would. Meanwhile a thread of the same process asks to be woken each 5 ms, as the loop and the lease
keeper are: how late it is says what the others feel.
"""

import logging
import os
import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import structlog

from dpp_project.observe import logging as dpp_logging
from runs.box.box import Box
from tests.gear.builders.box import MODULE, a_job, begin
from tests.gear.builders.packs import no_upload

log = structlog.get_logger("dpp.run")

FRAMES = 10_000
TICK_SECONDS = 0.005


@dataclass
class Sleeper:
    """How late each wake-up was, in milliseconds."""

    late: list[float] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.over.is_set():
            due = time.perf_counter() + TICK_SECONDS
            time.sleep(TICK_SECONDS)
            self.late.append((time.perf_counter() - due) * 1_000)


def log_to_nowhere() -> None:
    dpp_logging.set_up_logging(service="worker", level="INFO")
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  for as long as this process
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(nowhere)


def line(event: str, /, **values: Any) -> None:
    log.info("pack", said=event, run_id="a-run", tenant_id="t_bench", pack="stream", values=values)


def measure(box: Box, *, talkers: int, frames: int) -> str:
    def talk() -> None:
        job = a_job("STREAM", inputs={"number": frames}, timebox_seconds=90)
        box.start(job, fetch_upload=no_upload, log=line).wait()

    sleeper = Sleeper()
    thread = threading.Thread(target=sleeper.run)
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    thread.start()
    with ThreadPoolExecutor(max(1, talkers)) as slots:
        for one in [slots.submit(talk) for _ in range(talkers)] or [slots.submit(time.sleep, 1.0)]:
            one.result()
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    sleeper.over.set()
    thread.join()
    late = sorted(sleeper.late)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (
        f"{took:5.2f} s, {spent:5.2f} s of CPU here; woken late by p50 {late[len(late) // 2]:5.2f} ms,"
        f" p99 {late[int(len(late) * 0.99)]:5.2f} ms, most {late[-1]:5.2f} ms"
    )


def main() -> None:
    log_to_nowhere()
    box = Box([MODULE])
    try:
        begin(box, a_job("FREE")).wait()
        for talkers in (0, 1, 4):
            print(f"{talkers} packs of {FRAMES:,} frames: {measure(box, talkers=talkers, frames=FRAMES)}", flush=True)
    finally:
        box.close()


if __name__ == "__main__":
    main()
