"""A real process `events` on this test process's own database and queues: the platform's loops, or some for a test."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.gear.servers.live_processes import database_url
from tests.gear.servers.worker import ROOT
from tests.gear.waiting import wait_until

SERVED = ("-m", "dpp_project.serve", "events")
"""As every deployment starts it."""


class EventsProcess:
    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self._log = log

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def lines(self, event: str) -> list[dict[str, Any]]:
        text = self.log()
        found = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line.startswith("{")]
        return [line for line in found if line["event"] == event]

    def wait_for(self, event: str, *, count: int = 1, seconds: float = 30.0) -> list[dict[str, Any]]:
        """Lines of the log with this event, once there are so many."""
        wait_until(
            lambda: len(self.lines(event)) >= count or self.process.poll() is not None,
            seconds=seconds,
            what=f"{event!r} in the log",
        )
        found = self.lines(event)
        assert len(found) >= count, f"{event!r} is not in:\n{self.log()[-4_000:]}"
        return found

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def freeze(self, *, seconds: float) -> None:
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)  # the stillness is the fault
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait_exit(self, *, seconds: float = 30.0) -> int:
        return self.process.wait(seconds)


@contextmanager
def an_events_process(
    folder: Path, *command: str, name: str = "events", ready: str = "loops ready", **environ: str
) -> Iterator[EventsProcess]:
    """Running and ready; killed at the end if it still lives. `command` is for loops of a test's own."""
    values = {
        "DATABASE_URL": database_url(),
        "DPP_SERVICE": "events",
        "DPP_METRICS_DIR": str(folder / "metrics"),
        "DPP_SQS_WAIT_SECONDS": "1",
    }
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *(command or SERVED)],
            cwd=ROOT,
            env=os.environ | values | environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    running = EventsProcess(process, log)
    try:
        running.wait_for(ready)
        yield running
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
