"""Two connections at one row: the first holds its lock, the second waits for it, then sees what the first left."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from django.db import connection, transaction

from tests.gear.waiting import wait_until

Answer = TypeVar("Answer")


class OnAnotherConnection(Generic[Answer]):
    """A call in a thread of its own, with a connection of its own."""

    def __init__(self, call: Callable[[], Answer]) -> None:
        self._call = call
        self._answers: list[Answer] = []
        self._errors: list[BaseException] = []
        self.pid = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                self.pid = int(cursor.fetchone()[0])
            self._answers.append(self._call())
        except BaseException as error:
            self._errors.append(error)
            raise
        finally:
            connection.close()

    def waits_for_a_lock(self) -> bool:
        with connection.cursor() as cursor:
            # Not pg_stat_activity: a transaction sees that as it was when it first looked.
            cursor.execute("SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted", [self.pid])
            return bool(cursor.fetchone()[0])

    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def answer(self) -> Answer:
        self._thread.join(timeout=20)
        assert self.is_done(), "the second connection hangs"
        assert not self._errors, self._errors
        return self._answers[0]


@contextmanager
def impatient(milliseconds: int) -> Iterator[None]:
    """This thread's connection waits no longer than that for a lock; for the next that the pool gives it to, it does.

    What stayed on it once cut the locks of whatever test met the connection later.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = {milliseconds:d}")
    mine = connection.connection
    assert mine is not None
    try:
        yield
    finally:
        mine.execute("RESET lock_timeout")


def one_after_the_other(first: Callable[[], Answer], second: Callable[[], Any]) -> tuple[Answer, Any]:
    """`first` in an open transaction, then `second` until it waits for the lock or is done, then the commit."""
    with transaction.atomic():
        first_answer = first()
        rival = OnAnotherConnection(second)
        wait_until(lambda: rival.is_done() or rival.waits_for_a_lock(), what="the rival to meet the lock")
    return first_answer, rival.answer()
