"""Patience with Postgres, bounded on our side.

libpq waits for an answer as long as the connection stands. One that stands and answers no more (a proxy that lost its
far side, a host that went without a goodbye) keeps its thread for ever: an API thread less, or a recovery job that is
never started again because it still runs. Redis, SQS and S3 are asked with a timeout; so is Postgres, here.
"""

from collections.abc import Callable, Generator
from datetime import datetime
from typing import Any, Final, Self, TypeVar

import psycopg
from django.db import InterfaceError, OperationalError, connections
from psycopg import errors

ANSWER_SECONDS: Final = 20.0
"""Far above any statement of ours, and low enough that whatever met a dead connection is well again in a minute."""
LOCK_SECONDS: Final = 10.0
"""How long a statement waits for a lock. Below ANSWER_SECONDS, so that Postgres refuses it while its connection stands:
a connection that is given up leaves its session waiting at the server, and with it every advisory lock it has taken."""
STATEMENT_SECONDS: Final = 25.0
"""When the server ends a statement by itself: past ANSWER_SECONDS it works for a connection that was given up, or for a
host that is gone, and keeps its locks."""
GONE_SECONDS: Final = 30.0
"""When the server takes a machine for gone, or frozen."""
MIGRATION_LOCK_SECONDS: Final = 5.0
"""How long a migration waits for a table that requests wait for behind it (management/commands/migrate.py)."""
AWAY_PAUSE_MAX_SECONDS: Final = 5.0
"""What a loop waits at most before it asks a Postgres again that was away: as long as it is still away itself, when
Postgres is back."""
POOL_RECONNECT_SECONDS: Final = 8.0
"""When a pool gives up what it tries to open; the thread that asks next begins anew. Until then the pool doubles its
pause, to 128 s in the five minutes that it takes by itself, and opens nothing else: a process would be away for as long
again as Postgres was. Below the 10 s for which a thread waits for a connection."""
_LOOK_SECONDS: Final = 0.1

DATABASE_AWAY: Final = (OperationalError, InterfaceError, psycopg.OperationalError)
"""What a statement raises when Postgres does not answer: what it asked may have been done, and asking again later is
right. Psycopg's own come from outside Django's cursor: the pool, and a connection that is given up."""
_CONNECTION_LOST: Final = ("08", "53", "57P")
"""What Postgres says with a connection that it ends or does not give: classes of its error codes."""

Answered = TypeVar("Answered")


def is_away(error: BaseException) -> bool:
    """Of DATABASE_AWAY: the connection was lost, not one statement refused, as for a lock that is not given in time.

    Django has opened another one by now, where it could, so that the connection itself no longer tells.
    """
    state = getattr(error.__cause__, "sqlstate", None)
    return isinstance(error, DATABASE_AWAY) and (state is None or state.startswith(_CONNECTION_LOST))


def session_settings(*, bounded: bool) -> str:
    """What each session asks of the server, as libpq's `options`.

    A machine that goes without a goodbye is noticed within GONE_SECONDS, where Postgres by itself waits for hours; so
    is one that froze in the middle of a transaction, whose kernel still answers for it. Until then their sessions keep
    row locks and advisory locks.
    """
    gone_ms = round(GONE_SECONDS * 1_000)
    wanted = {
        "tcp_keepalives_idle": 15,
        "tcp_keepalives_interval": 5,
        "tcp_keepalives_count": 3,
        "tcp_user_timeout": gone_ms,
        "idle_in_transaction_session_timeout": gone_ms,
    }
    if bounded:
        wanted["lock_timeout"] = round(LOCK_SECONDS * 1_000)
        wanted["statement_timeout"] = round(STATEMENT_SECONDS * 1_000)
    return " ".join(f"-c {name}={value}" for name, value in wanted.items())


def database_now() -> datetime:
    """One clock for all processes: what is due by it is due for each of them."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        found: datetime = cursor.fetchone()[0]
        return found


def make_room(wanted: int) -> None:
    """This process's pool has at least so many connections: for threads that hold one for as long as they run."""
    pool: Any = getattr(connections["default"], "pool", None)
    if pool is not None and pool.max_size < wanted:
        pool.resize(min_size=pool.min_size, max_size=wanted)


_questions: list[Callable[["AskedConnection"], None]] = []


def ask_each_new_connection(question: Callable[["AskedConnection"], None]) -> None:
    """Put to each connection that a pool opens, before anything else runs on it. A question that raises a psycopg error
    has found the connection broken; the pool opens another.
    """
    if question not in _questions:
        _questions.append(question)


class AskedConnection(psycopg.Connection[Any]):
    """Tells what a restart, a failover or a restored copy has changed, before its first use."""

    @classmethod
    def connect(cls, conninfo: str = "", **more: Any) -> Self:
        connected = super().connect(conninfo, **more)
        for question in _questions:
            question(connected)
        return connected


class BoundedConnection(AskedConnection):
    """Gives a connection up that does not answer. What was asked may have been done all the same, as in any outage."""

    def wait(
        self, gen: Generator[Any, Any, Answered], interval: float = _LOOK_SECONDS, timeout: float | None = None
    ) -> Answered:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, ANSWER_SECONDS)
        except errors._WaitTimeout as error:  # noqa: SLF001  it has no public name
            self.pgconn.finish()
            raise psycopg.OperationalError(f"Postgres has not answered for {ANSWER_SECONDS:.0f} s") from error
