"""One loop in a thread of its own, started again where it fails, and watched for whether it gets on.

A loop is given an event that says when to stop. Each question it puts to that event says that it gets on, as does each
statement of its thread, so that a turn of many statements under a slow Postgres is none that hangs; one that waits on
the event waits in order. So a loop needs no further word to be watched (jobs/deadline.py does the same for a pass). One
that asks nothing for HANG_SECONDS hangs: every wait of a loop's is bounded (Postgres 20 s, SQS 4 s and its long poll,
5 s), so that this is a fault of ours, or of the machine.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import structlog
from django.db import connection, connections

from dpp_project.loops_server.metrics import FAILURES
from dpp_project.outbox.events import Loop
from dpp_project.stores.postgres import AWAY_PAUSE_MAX_SECONDS

log = structlog.get_logger("dpp.events")

PAUSE_FIRST_SECONDS: Final = 0.25
WELL_SECONDS: Final = 60.0
"""A loop that ran for so long begins its pauses anew."""
GETS_ON_SECONDS: Final = 30.0
"""Silent for longer, the heartbeat shows no progress any more."""
HANG_SECONDS: Final = 120.0


class StopEvent(threading.Event):
    """Counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.questions = 0
        self.waiting = False

    def is_set(self) -> bool:
        self.questions += 1
        return super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        self.questions += 1
        self.waiting = True
        try:
            return super().wait(timeout)
        finally:
            self.waiting = False


class SupervisedLoop:
    """`silent_seconds` is how long it has asked nothing, as far as `look` was there to see."""

    def __init__(self, loop: Loop) -> None:
        self.name = loop.name
        self.stop = StopEvent()
        self.silent_seconds = 0.0
        self._loop = loop
        self._seen = 0
        self._thread = threading.Thread(target=self._run_on, name=f"events {loop.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def look(self, *, seconds: float) -> None:
        """Asked about every `seconds`. Its own clock: a process that was frozen finds none of its loops hung."""
        asked = self.stop.questions
        if asked != self._seen or self.stop.waiting or not self._thread.is_alive():
            self._seen, self.silent_seconds = asked, 0.0
        else:
            self.silent_seconds += seconds

    @property
    def gets_on(self) -> bool:
        return self.silent_seconds < GETS_ON_SECONDS

    @property
    def hangs(self) -> bool:
        return self.silent_seconds >= HANG_SECONDS

    def ended(self, *, seconds: float | None = None) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run_on(self) -> None:
        """Until its stop event is set. Its failures are its own: no other loop hears of them."""
        failures = 0
        while not self.stop.is_set():
            began = time.monotonic()
            error = self._run_once()
            if self.stop.is_set() and error is None:
                return
            failures = 1 if time.monotonic() - began >= WELL_SECONDS else failures + 1
            FAILURES.labels(self.name).inc()
            pause = min(AWAY_PAUSE_MAX_SECONDS, PAUSE_FIRST_SECONDS * 2 ** min(failures - 1, 16))
            log.error("loop failed and starts again", loop=self.name, in_seconds=pause, exc_info=error)
            self.stop.wait(pause)

    def _run_once(self) -> BaseException | None:
        try:
            with connection.execute_wrapper(self._counted):
                self._loop.run(self.stop)
        except (Exception, SystemExit) as error:  # noqa: BLE001  the thread's end would take the loop along, unseen
            return error
        finally:
            self._give_connections_back()
        return None

    def _counted(self, execute: Callable[..., Any], *asked: Any) -> Any:
        self.stop.questions += 1
        return execute(*asked)

    def _give_connections_back(self) -> None:
        try:
            connections.close_all()
        except Exception as error:  # the loop begins anew all the same
            log.warning("connections not given back", loop=self.name, exc_info=error)
