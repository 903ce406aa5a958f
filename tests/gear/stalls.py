"""A test that failed while the machine itself stood still is run again, and the summary names it.

Tests run against the clocks of real servers. A virtual machine that is paused for seconds, as hosts do, cuts the
timeouts of everything at once, and a disk that takes nothing for seconds does so for a Postgres that waits for it: that
says nothing of the product. A failure without such a pause is told as ever.
"""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol

TICK_SECONDS: Final = 0.05
LATE_SECONDS: Final = 1.5
"""A thread that asked for a twentieth of a second and was given so much more: no load of the suite does that."""
WINDOW_SECONDS: Final = 10.0
"""Every process that could have run waited for the disk or for memory for LATE_SECONDS of so many."""
TURNS: Final = 3
_PRESSURE: Final = Path("/proc/pressure")


def seconds_nobody_ran() -> float:
    """Since the machine was started: what Linux calls full pressure, by the disk and by memory."""
    total = 0.0
    for name in ("io", "memory"):
        try:
            text = (_PRESSURE / name).read_text(encoding="ascii")
        except OSError:  # a kernel that does not count it
            continue
        total += sum(int(line.rpartition("total=")[2]) for line in text.splitlines() if line.startswith("full"))
    return total / 1_000_000


class StallWatch:
    """A thread that does nothing but ask for short waits, and counts those that were far too long."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        wait: Callable[[float], object] | None = None,
        nobody_ran: Callable[[], float] = seconds_nobody_ran,
    ) -> None:
        self.stalls = 0
        self._clock = clock
        self._nobody_ran = nobody_ran
        self._window = (clock(), nobody_ran())
        self._stop = threading.Event()
        self._wait = wait or self._stop.wait

    def look_once(self) -> None:
        before = self._clock()
        self._wait(TICK_SECONDS)
        if self._clock() - before > TICK_SECONDS + LATE_SECONDS:
            self.stalls += 1
        since, ran_before = self._window
        now, nobody_ran = self._clock(), self._nobody_ran()
        if nobody_ran - ran_before > LATE_SECONDS:
            self.stalls += 1
        if nobody_ran - ran_before > LATE_SECONDS or now - since > WINDOW_SECONDS:
            self._window = (now, nobody_ran)

    def start(self) -> None:
        threading.Thread(target=self._run, name="stall-watch", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.look_once()


def run_with_turns(run: Callable[[], list[Any]], watch: StallWatch) -> tuple[list[Any], int]:
    """The reports of the last turn, and how many turns were given up because the machine stood still in them."""
    given_up = 0
    while True:
        before = watch.stalls
        reports = run()
        stalled = watch.stalls > before and any(report.failed for report in reports)
        if not stalled or given_up == TURNS - 1:
            return reports, given_up
        given_up += 1


class Plugin:
    def __init__(self) -> None:
        self.watch = StallWatch()
        self.watch.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        turns = self._turns(item, nextitem)
        reports, given_up = run_with_turns(lambda: next(turns), self.watch)
        for report in reports:
            if given_up:
                report.user_properties.append(("stalled", given_up))
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @staticmethod
    def _turns(item: Any, nextitem: Any) -> Iterator[list[Any]]:
        yield runtestprotocol(item, nextitem=nextitem, log=False)
        while True:
            item._initrequest()  # the fixtures of the turn before are gone
            yield runtestprotocol(item, nextitem=nextitem, log=False)

    def pytest_unconfigure(self) -> None:
        self.watch.stop()


def summary(reports: Iterator[Any]) -> list[str]:
    """A line for each test that was run again."""
    again = {it.nodeid: turns for it in reports for name, turns in it.user_properties if name == "stalled"}
    return [f"{nodeid}: run again {turns} times, since the machine stood still" for nodeid, turns in again.items()]
