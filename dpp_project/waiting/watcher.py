"""One watcher a process and kind of thing: a thread that looks for all who wait, and wakes those whose thing moved.

    waiter = Waiter()                                   # on a loop
    with watcher.watching(waiter, key, seen=version):   # from what the waiter has read
        came = await waiter.news(seconds=20)

A waiter says what it has seen, and gets all that lies beyond that, so that no order of reading, registering and
committing loses anything: what was committed before it registered is beyond what it has seen, too.

The thread looks while anyone waits, with one question for all, and rests otherwise. A service that does not answer
changes nothing for those who wait: their own time ends their wait, and the next look finds all that happened meanwhile.
"""

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import structlog

from dpp_project.waiting.metrics import LOOKS_FAILED

log = structlog.get_logger("dpp.waiting")

MOST_REST: Final = 1.0
"""Between looks at a service that does not answer."""
NEWS_KEPT: Final = 200
"""For a waiter that does not take them; the oldest go."""

Mark = TypeVar("Mark", int, tuple[int, int])


@dataclass(frozen=True, slots=True)
class News:
    """Something that happened to `key`; `mark` is greater than that of all before it."""

    key: str
    mark: Any
    what: Any


class Waiter:
    """One who waits, on the loop on which it was made. Watchers tell it from their threads."""

    __slots__ = ("__weakref__", "_loop", "_news", "_woken", "stopping")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._news: deque[News] = deque(maxlen=NEWS_KEPT)
        self.stopping = False

    async def news(self, *, seconds: float) -> list[News]:
        """All that came since it was last asked, as soon as there is anything; nothing after so long, or when the
        process stops.
        """
        if not self._news and not self.stopping:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
        self._woken.clear()
        came = list(self._news)
        self._news.clear()
        return came

    def tell(self, news: Iterable[News]) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # its loop is closed, and it with that
            self._loop.call_soon_threadsafe(self._take, news)

    def stop(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop)

    def _take(self, news: Iterable[News]) -> None:
        self._news.extend(news)
        self._woken.set()

    def _stop(self) -> None:
        self.stopping = True
        self._woken.set()


@dataclass(slots=True)
class _Watched(Generic[Mark]):
    """One thing: who waits for it, and what each has seen; `least` is where the next look begins."""

    least: Mark
    seen: dict[Waiter, Mark] = field(default_factory=dict)


class Watcher(Generic[Mark]):
    """`look` is asked with the least mark that a waiter has seen of each key, and answers what lies beyond, in order.

    It raises one of `away` where its service does not answer; `rest` is called in the thread when nobody waits any
    more, and after each failure.
    """

    def __init__(
        self,
        name: str,
        look: Callable[[Mapping[str, Mark]], Iterable[News]],
        *,
        every_seconds: float,
        away: tuple[type[BaseException], ...],
        rest: Callable[[], None],
    ) -> None:
        self._name = name
        self._look: Callable[[Mapping[str, Mark]], Iterable[News]] = look
        self._every_seconds = every_seconds
        self._away = away
        self._rest = rest
        self._watched: dict[str, _Watched[Mark]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._failing_since: float | None = None
        _all.add(self)

    @contextmanager
    def watching(self, waiter: Waiter, key: str, *, seen: Mark) -> Iterator[None]:
        with self._changed:
            watched = self._watched.setdefault(key, _Watched(seen))
            watched.seen[waiter] = seen
            watched.least = min(watched.least, seen)
            if self._stopping:
                waiter.stop()
            elif self._thread is None:
                self._thread = threading.Thread(target=self._watch, name=f"watch-{self._name}", daemon=True)
                self._thread.start()
            elif len(self._watched) == 1:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del watched.seen[waiter]
                if not watched.seen:
                    del self._watched[key]

    def stop(self) -> None:
        """The process is about to end: all who wait are woken, and those who come later do not wait."""
        with self._changed:
            self._stopping = True
            waiting = [waiter for watched in self._watched.values() for waiter in watched.seen]
        for waiter in waiting:
            waiter.stop()

    def _watch(self) -> None:
        while True:
            with self._changed:
                is_idle = not self._watched
            if is_idle:
                self._rest_if_possible()
                with self._changed:
                    while not self._watched:
                        self._changed.wait()
            began = time.monotonic()
            failed = not self._looked()
            took = time.monotonic() - began
            # At least half of the time is others': a slow answer must not make a busy loop of this.
            pause = max(self._every_seconds - took, min(took, MOST_REST), 0.005)
            time.sleep(min(MOST_REST, self._failing_for() + pause) if failed else pause)

    def _looked(self) -> bool:
        try:
            self.look_once()
        except Exception as error:  # the thread must go on: without it nobody is woken
            LOOKS_FAILED.labels(self._name).inc()
            if self._failing_since is None or not isinstance(error, self._away):
                log.warning("not looked for those who wait, trying again", watcher=self._name, exc_info=error)
            self._failing_since = self._failing_since or time.monotonic()
            self._rest_if_possible()
            return False
        if self._failing_since is not None:
            log.info("looked again for those who wait", watcher=self._name, after_seconds=round(self._failing_for(), 1))
            self._failing_since = None
        return True

    def _rest_if_possible(self) -> None:
        try:
            self._rest()
        except Exception as error:  # the thread must go on, as above
            log.warning("a watcher's connections are not given back", watcher=self._name, exc_info=error)

    def _failing_for(self) -> float:
        return 0.0 if self._failing_since is None else time.monotonic() - self._failing_since

    def look_once(self) -> None:
        with self._changed:
            asked = {key: watched.least for key, watched in self._watched.items()}
        if not asked:
            return
        found: dict[str, list[News]] = {}
        for news in self._look(asked):
            found.setdefault(news.key, []).append(news)
        for key, some in found.items():
            self._tell(key, asked[key], some)

    def _tell(self, key: str, since: Mark, some: list[News]) -> None:
        """A waiter that came meanwhile with an older mark is left for the next look: to it this one has a gap."""
        with self._changed:
            watched = self._watched.get(key)
            if watched is None:
                return
            for waiter, seen in list(watched.seen.items()):
                new = [news for news in some if news.mark > seen]
                if seen >= since and new:
                    watched.seen[waiter] = new[-1].mark
                    waiter.tell(new)
            watched.least = min(watched.seen.values())


_all: "weakref.WeakSet[Watcher[Any]]" = weakref.WeakSet()


def stop_all() -> None:
    """Answer all who wait, now: the process is about to end."""
    for watcher in list(_all):
        watcher.stop()
