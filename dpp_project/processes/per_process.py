"""One of a thing in each process: made when first asked for, shared by all threads, never carried over a fork.

A forked child must not use its parent's connections, and a lock that another thread held at the fork stays shut in the
child for ever. So a child forgets what its parent made, takes a fresh lock, and makes its own when asked.

    @PerProcess
    def client() -> Client:
        return Client(...)

    client()          # this process's
    client.forget()   # the next call makes another
"""

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Thing = TypeVar("Thing")


class PerProcess(Generic[Thing]):
    """`make` builds the thing, once even if many threads ask."""

    def __init__(self, make: Callable[[], Thing]) -> None:
        self.__doc__ = make.__doc__
        self._make = make
        self._made: Thing | None = None
        self._lock = threading.Lock()
        _all.add(self)

    def __call__(self) -> Thing:
        made = self._made
        if made is not None:
            return made
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    def forget(self) -> Thing | None:
        """What was made, if anything, to be closed by the caller; the next call makes another."""
        with self._lock:
            made, self._made = self._made, None
        return made

    def forget_parents(self) -> None:
        self._made = None
        self._lock = threading.Lock()


_all: "weakref.WeakSet[PerProcess[Any]]" = weakref.WeakSet()


def _begin_child() -> None:
    for one in list(_all):
        one.forget_parents()


os.register_at_fork(after_in_child=_begin_child)
