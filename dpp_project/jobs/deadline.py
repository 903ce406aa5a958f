"""How long a pass of a job may go on. The runner sets it around `run_once`; a loop asks between two rows.

A pass that ends early leaves the rest of its rows as they were, and the next pass goes on with them. So neither a
backlog of hours nor a stop of the process waits for the last row. Threads that a job starts do not inherit it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic


@dataclass(frozen=True, slots=True)
class _Deadline:
    at: float
    stopping: threading.Event | None

    def is_over(self) -> bool:
        return monotonic() >= self.at or (self.stopping is not None and self.stopping.is_set())


_current: ContextVar[_Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def within(*, seconds: float, stopping: threading.Event | None = None) -> Iterator[None]:
    """The block is a pass: it has so many seconds, and fewer when `stopping` is set meanwhile."""
    token = _current.set(_Deadline(monotonic() + seconds, stopping))
    try:
        yield
    finally:
        _current.reset(token)


def is_over() -> bool:
    """Whether the pass must end here. Outside of a job there is no deadline."""
    deadline = _current.get()
    return deadline is not None and deadline.is_over()


def progressed() -> None:
    """Said by a pass that gets on, where it has no deadline to ask for."""
