"""What the packs of this process say of their progress, on its way to Redis: at most five times a second for each run.

One thread writes for all runs, so that a Redis that is slow or away holds up no slot, no lease and no money: what it
does not take is dropped, and the next frame says more anyway.
"""

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import structlog
from redis import RedisError

from dpp_project import clock
from dpp_project.processes.per_process import PerProcess
from dpp_project.stores import redis
from runs import metrics, progress

log = structlog.get_logger("dpp.run")

EVERY_SECONDS: Final = 0.2
TAIL: Final = 20
LINE_LENGTH_MAX: Final = 2_000

ProgressFrame = dict[str, Any]


class ProgressWriter:
    """What comes faster than it is written is put together: the newest of each member, and the lines joined."""

    def __init__(self, *, every_seconds: float = EVERY_SECONDS) -> None:
        self._every_seconds = every_seconds
        self._waiting: dict[str, ProgressFrame] = {}
        self._ended: set[str] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, run_id: str, frame: ProgressFrame) -> None:
        with self._changed:
            self._waiting[run_id] = joined_frames(self._waiting.get(run_id, {}), frame)
            self._wake()

    def end(self, run_id: str) -> None:
        """Its stream goes soon."""
        with self._changed:
            self._ended.add(run_id)
            self._wake()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_for_ever, name="progress", daemon=True)
            self._thread.start()
        self._changed.notify()

    def _write_for_ever(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._ended:
                    self._changed.wait()
                waiting, self._waiting = self._waiting, {}
                ended, self._ended = self._ended, set()
            try:
                self._write(waiting, ended)
            except Exception as error:  # the thread must go on; a frame is worth no more than this
                metrics.PROGRESS_DROPPED.inc(len(waiting))
                log.warning("progress dropped", frames=len(waiting), exc_info=error)
            time.sleep(self._every_seconds)

    def _write(self, waiting: Mapping[str, ProgressFrame], ended: set[str]) -> None:
        with redis.redis_client().pipeline(transaction=False) as pipeline:
            for run_id, frame in waiting.items():
                progress.queue_write(pipeline, run_id, frame)
            for run_id in ended:
                progress.queue_end(pipeline, run_id)
            if any(isinstance(answer, RedisError) for answer in pipeline.execute(raise_on_error=False)):
                metrics.PROGRESS_DROPPED.inc()


writer = PerProcess(ProgressWriter)


def joined_frames(earlier: ProgressFrame, later: ProgressFrame) -> ProgressFrame:
    frame = earlier | later
    if "line" in earlier and "line" in later:
        frame["line"] = (earlier["line"] + later["line"])[-LINE_LENGTH_MAX:]
    return frame


class ProgressOfRun:
    """One run's: each frame with the time and what the run has used so far, and the last ones for the envelope."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self.tail: deque[ProgressFrame] = deque(maxlen=TAIL)

    def __call__(self, said: ProgressFrame, *, spent_micros: int) -> None:
        """In the slot's thread: nothing here waits."""
        frame = {**said, "cost_usd_micros": spent_micros, "at": clock.now().isoformat().replace("+00:00", "Z")}
        self.tail.append(frame)
        writer().write(self._run_id, frame)

    def end(self) -> None:
        if self.tail:
            writer().end(self._run_id)
