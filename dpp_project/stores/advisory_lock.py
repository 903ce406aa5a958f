"""Advisory locks in Postgres: one worker at a time, over all machines.

A session's lock lives on this thread's connection, and Postgres frees it when that session ends. So it spares two
workers the same work; what must hold even if the session is lost in between rests on something else.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import Error, connection

Key = tuple[int, int]
"""A class of locks, named by four letters, and one of that class."""

_LOCK: Final = "SELECT pg_advisory_lock(%s, %s)"
_TRY_LOCK: Final = "SELECT pg_try_advisory_lock(%s, %s)"
_UNLOCK: Final = "SELECT pg_advisory_unlock(%s, %s)"
_LOCK_TRANSACTION: Final = "SELECT pg_advisory_xact_lock(%s, %s)"


@contextmanager
def try_lock(key: Key) -> Iterator[bool]:
    """Tried and not waited for: False when another session has it."""
    with connection.cursor() as cursor:
        cursor.execute(_TRY_LOCK, key)
        (locked,) = cursor.fetchone()
    try:
        yield locked
    finally:
        if locked:
            _unlock(key)


@contextmanager
def lock(key: Key) -> Iterator[None]:
    """Waited for."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, key)
    try:
        yield
    finally:
        _unlock(key)


def lock_until_commit(key: Key) -> None:
    """Waited for, inside the caller's transaction, and given back at its end."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_TRANSACTION, key)


def _unlock(key: Key) -> None:
    """A lost connection has unlocked by itself; closing makes sure that a pooled one keeps no lock."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(_UNLOCK, key)
    except Error:
        connection.close()
