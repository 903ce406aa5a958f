"""A process whose threads are all taken, and none of which answers, ends; the server starts a new one in its place.

Every wait of a request is bounded (Postgres 20 s, a lock 10 s, Redis and SQS 2 s, a slow reader of a statement by what
it takes), so that a minute without one answer is a fault of ours. A probe would meet such a process only by chance:
the kernel deals connections out among all that listen.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from dpp_project.processes.stacks import where_threads_are

log = structlog.get_logger("dpp.api_server")

EXIT_CODE: Final = 70
"""EX_SOFTWARE."""


@dataclass(frozen=True)
class StuckLimits:
    """`/healthz` says 503 after the first, and the process ends after the second."""

    unhealthy_seconds: float = 30.0
    end_seconds: float = 60.0
    look_every_seconds: float = 2.0


class EndWhenStuck:
    def __init__(self, seconds_stuck: Callable[[], float], limits: StuckLimits) -> None:
        self._seconds_stuck = seconds_stuck
        self._limits = limits

    def start(self) -> None:
        threading.Thread(target=self._watch, name="stuck", daemon=True).start()

    def _watch(self) -> None:
        while self._seconds_stuck() < self._limits.end_seconds:
            time.sleep(self._limits.look_every_seconds)
        log.critical("all threads are taken and none answers, the process ends", threads=where_threads_are())
        os._exit(EXIT_CODE)
