"""Threads that are shared fairly: however many requests one source has waiting, the next one's wait for few of them."""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final

MAX_WAITING: Final = 256
"""Of one source. More would not be answered before their clients give up."""

_Work = Callable[[], None]


class TooManyWaiting(Exception):  # noqa: N818  it is an answer
    """This source has as many requests waiting as one may."""


class _WorkRaised(Exception):  # noqa: N818  named for the finding
    """Anything, a SystemExit as well: whose work it was knows, and the thread goes on."""


@dataclass(slots=True)
class _Lane:
    """What one source has waiting; `ready` of it stand in the queue of all, no more than may run at once."""

    source: Hashable
    waiting: deque[_Work] = field(default_factory=deque)
    ready: int = 0
    running: int = 0


class FairThreads:
    """A source has at most `share` requests in the threads and in their queue; all others of it wait behind those.

    A ThreadPoolExecutor would make a future with its lock for each request, a quarter of what the loop does for one.
    """

    def __init__(self, count: int, *, name: str) -> None:
        self.count = count
        self.share = max(1, count * 2 // 3)
        self._turns: SimpleQueue[bool] = SimpleQueue()
        self._lock = threading.Lock()
        self._lanes: dict[Hashable, _Lane] = {}
        self._ready: deque[_Lane] = deque()
        self._running = 0
        self._all_taken_since: float | None = None
        for number in range(count):
            threading.Thread(target=self._serve, name=f"{name}-{number}", daemon=True).start()

    def close(self) -> None:
        """The threads end; what has its turn already is still done."""
        for _ in range(self.count):
            self._turns.put(False)

    def run(self, source: Hashable, work: _Work) -> None:
        """In a thread, when it is this source's turn. What `work` raises is dropped."""
        with self._lock:
            lane = self._lanes.get(source)
            if lane is None:
                lane = self._lanes[source] = _Lane(source)
            elif len(lane.waiting) >= MAX_WAITING:
                raise TooManyWaiting
            lane.waiting.append(work)
            is_ready = self._make_ready(lane)
        if is_ready:
            self._turns.put(True)

    def seconds_stuck(self) -> float:
        """For how long every thread has been taken, and none of their requests has ended."""
        since = self._all_taken_since
        return 0.0 if since is None else time.monotonic() - since

    def _make_ready(self, lane: _Lane) -> bool:
        if lane.ready == len(lane.waiting) or lane.ready + lane.running >= self.share:
            return False
        lane.ready += 1
        self._ready.append(lane)
        return True

    def _serve(self) -> None:
        while self._turns.get():
            with suppress(_WorkRaised):
                self._run_next()

    def _run_next(self) -> None:
        with self._lock:
            lane = self._ready.popleft()
            work = lane.waiting.popleft()
            lane.ready -= 1
            lane.running += 1
            self._running += 1
            if self._running == self.count:
                self._all_taken_since = time.monotonic()
        try:
            work()
        except BaseException as error:
            raise _WorkRaised from error
        finally:
            with self._lock:
                lane.running -= 1
                self._running -= 1
                self._all_taken_since = None
                is_ready = self._make_ready(lane)
                if not lane.waiting and not lane.running:
                    del self._lanes[lane.source]
            if is_ready:
                self._turns.put(True)
