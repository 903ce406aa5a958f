"""Runs the loops of a process until SIGTERM, or until one of them hangs.

Ending: the first SIGTERM, or SIGINT, sets every loop's event; each finishes what it is at and gives its claims back. A
second one, or the end of GRACE_SECONDS, ends the process at once: what it had claimed is taken over by elapsed
time, in the outbox after 120 s, in the ledger when its lease is over. So does a loop that hangs, but for the others'
grace: the supervisor then starts the process anew (exit code 70). Nothing rests on an orderly end.
"""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

import structlog

from dpp_project import constants
from dpp_project.heartbeats.pulse import Pulse
from dpp_project.lifecycle.host_care import HostCare
from dpp_project.loops_server.supervised_loop import SupervisedLoop
from dpp_project.outbox.events import Loop
from dpp_project.process_env import ENV
from dpp_project.processes.stacks import where_threads_are
from dpp_project.stores.postgres import make_room

log = structlog.get_logger("dpp.events")

LOOK_SECONDS: Final = 1.0
GRACE_SECONDS: Final[float] = constants.EVENTS_GRACE_SECONDS
HUNG_CODE: Final = 70
"""EX_SOFTWARE."""
LATE_CODE: Final = 1


class LoopsHost:
    def __init__(self, loops: Sequence[Loop], *, part: str = "events") -> None:
        twice = [name for name, count in Counter(loop.name for loop in loops).items() if count > 1]
        if twice:
            raise ValueError(f"two loops are called {', '.join(twice)}")
        self._loops = [SupervisedLoop(loop) for loop in loops]
        self._part = part
        self._told: SimpleQueue[int] = SimpleQueue()
        self._stops = False
        self._progress = 0

    def run(self) -> int:
        """On the main thread; answers the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hear)
        if self._part == "events" and ENV.DPP_EVENTS_QUEUE_URL is None:
            log.warning("DPP_EVENTS_QUEUE_URL is not set: events wait in Postgres until it is")
        make_room(len(self._loops) + 2)  # beside the loops, the pulse and what a loop asks in a thread of its own
        pulse = Pulse(service=ENV.DPP_SERVICE, slots=len(self._loops), progress=lambda: self._progress)
        pulse.start()
        care = HostCare()
        care.start()
        for loop in self._loops:
            loop.start()
        log.info("loops ready", part=self._part, loops=[loop.name for loop in self._loops])
        hung = self._watch()
        self._end_in_time()
        for loop in self._loops:
            loop.stop.set()
        for loop in self._loops:
            if loop not in hung:
                loop.ended()  # no bound of its own: beside the deadline's, it answered 0 for a loop that was late
        pulse.stop()
        care.stop()
        log.info("loops ended", part=self._part)
        if hung:
            os._exit(HUNG_CODE)  # its thread would keep the process
        return 0

    def _watch(self) -> list[SupervisedLoop]:
        """Until a signal, or until a loop hangs; answers those that do."""
        looked_at = time.monotonic()
        while not self._is_told(within_seconds=LOOK_SECONDS):
            # A process that was stopped, or a machine that slept, has not been watching for longer than this.
            seconds = min(time.monotonic() - looked_at, 2 * LOOK_SECONDS)
            looked_at = time.monotonic()
            for loop in self._loops:
                loop.look(seconds=seconds)
            if all(loop.gets_on for loop in self._loops):
                self._progress = sum(loop.stop.questions for loop in self._loops)
            if hung := [loop for loop in self._loops if loop.hangs]:
                names = [loop.name for loop in hung]
                log.critical("a loop hangs, the process ends", loops=names, threads=where_threads_are())
                return hung
        return []

    def _is_told(self, *, within_seconds: float) -> bool:
        try:
            self._told.get(timeout=within_seconds)
        except Empty:
            return False
        return True

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        """A signal comes between two steps of the main thread: a queue's put may then be called, an event's set not."""
        if self._stops:
            os._exit(LATE_CODE)
        self._stops = True
        self._told.put(number)

    def _end_in_time(self) -> None:
        def end() -> None:
            time.sleep(GRACE_SECONDS)
            left = [loop.name for loop in self._loops if not loop.ended(seconds=0)]
            log.critical("did not end in time", loops=left, threads=where_threads_are())
            os._exit(LATE_CODE)

        threading.Thread(target=end, name="deadline", daemon=True).start()
