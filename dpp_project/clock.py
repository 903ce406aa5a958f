"""The one source of time. Tests and fault drills move it; nothing else calls `datetime.now()`."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime: ...


class SystemClock:
    """Wall time, moved by DPP_CLOCK_OFFSET_SECONDS so that a drill can run one process an hour off."""

    def __init__(self, offset: timedelta = timedelta()) -> None:
        self._offset = offset

    def now(self) -> datetime:
        return datetime.fromtimestamp(time.time(), tz=UTC) + self._offset


class FixedClock:
    """Stands still until moved."""

    def __init__(self, at: datetime) -> None:
        if at.tzinfo is None:
            raise ValueError("a clock needs an aware datetime")
        self._at = at.astimezone(UTC)

    def now(self) -> datetime:
        return self._at

    def advance(self, *, seconds: float) -> None:
        self._at += timedelta(seconds=seconds)


def _system_clock() -> SystemClock:
    return SystemClock(timedelta(seconds=int(os.environ.get("DPP_CLOCK_OFFSET_SECONDS") or 0)))


_clock: Clock = _system_clock()


def now() -> datetime:
    """The current instant, aware, in UTC."""
    return _clock.now()


@contextmanager
def use_clock(clock: Clock) -> Iterator[Clock]:
    """Put another clock in place for the length of a block."""
    global _clock  # noqa: PLW0603  the one place where the time can be moved
    before, _clock = _clock, clock
    try:
        yield clock
    finally:
        _clock = before
