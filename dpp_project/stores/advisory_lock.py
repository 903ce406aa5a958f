"""Advisory locks in Postgres: one worker at a time, over all machines.

A session's lock lives on this thread's connection, and Postgres frees it when that session ends. So it spares two
workers the same work; what must hold even if the session is lost in between rests on something else. A host that froze
keeps its session: so one that holds a lock is ended by Postgres where it asks nothing for HELD_IDLE_SECONDS.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import Error, connection

Key = tuple[int, int]
"""A class of locks, named by four letters, and one of that class."""

HELD_IDLE_SECONDS: Final = 45
_LOCK: Final = "SELECT pg_advisory_lock(%s, %s), set_config('idle_session_timeout', %s, false)"
_UNLOCK: Final = "SELECT pg_advisory_unlock(%s, %s), set_config('idle_session_timeout', '0', false)"
_LOCK_TRANSACTION: Final = "SELECT pg_advisory_xact_lock(%s, %s)"
_LOCK_NAME: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


@contextmanager
def advisory_lock(key: Key) -> Iterator[None]:
    """Waited for."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [*key, f"{HELD_IDLE_SECONDS}s"])
    try:
        yield
    finally:
        _unlock(key)


def lock_until_commit(key: Key) -> None:
    """Waited for, inside the caller's transaction, and given back at its end."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_TRANSACTION, key)


def lock_name_until_commit(name: str) -> None:
    """The same for a lock that is named by a text: of a tenant, or of a key of a tenant's."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_NAME, [name])


def _unlock(key: Key) -> None:
    """A lost connection has unlocked by itself; closing makes sure that a pooled one keeps no lock."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(_UNLOCK, key)
    except Error:
        connection.close()
