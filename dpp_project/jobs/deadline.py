"""How long a pass of a job may go on, and whether it gets on. The runner sets it around `run_once`; a loop asks between
two rows.

A pass that ends early leaves the rest of its rows as they were, and the next pass goes on with them. So neither a
backlog of hours nor a stop of the process waits for the last row. Each question also says that the pass gets on: one
that asks no more is taken for hung, and loses its lease (leases.py). Threads that a job starts do not inherit it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Final

HANG_SECONDS: Final = 40
"""Twice the longest statement. A pass that says nothing for so long, and is past its deadline, hangs."""


class Pass:
    """One run of a job, as its own thread and the one that renews its lease see it."""

    def __init__(self, *, seconds: float, stopping: threading.Event | None = None) -> None:
        self._progressed_at = monotonic()
        self._ends_at = self._progressed_at + seconds
        self._stopping = stopping
        self.lost = False
        """Another process has taken the job over."""

    def is_over(self) -> bool:
        self.progressed()
        return (
            self._progressed_at >= self._ends_at
            or self.lost
            or (self._stopping is not None and self._stopping.is_set())
        )

    def progressed(self) -> None:
        self._progressed_at = monotonic()

    def hangs(self) -> bool:
        return monotonic() >= max(self._ends_at, self._progressed_at + HANG_SECONDS)


_current: ContextVar[Pass | None] = ContextVar("deadline", default=None)


@contextmanager
def within_deadline(running: Pass) -> Iterator[None]:
    """The block is this pass."""
    token = _current.set(running)
    try:
        yield
    finally:
        _current.reset(token)


def is_over() -> bool:
    """Whether the pass must end here. Outside of a job there is no deadline."""
    running = _current.get()
    return running is not None and running.is_over()


def pass_progressed() -> None:
    """Said by a pass that gets on, where it cannot end."""
    if (running := _current.get()) is not None:
        running.progressed()
