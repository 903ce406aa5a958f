"""Connections that money may travel on: each asks, before its first command, whether Redis still is what was rebuilt.

A restart, a failover or a restored dump breaks every connection, and serves an image that may be older than what was
answered from it. The new connection's first command compares the image's epoch with the server (`gate_check.lua`) and
closes the gate on a difference, so no script of ours ever runs on such an image.
"""

from collections.abc import Sequence
from typing import Any

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from budget.redis import keys
from budget.redis.gate import CHECK
from dpp_project.processes.per_process import PerProcess


def guard_connection(connection: Any) -> None:
    connection.on_connect()
    connection.send_command("EVAL", CHECK.text, 1, keys.EPOCH)
    connection.read_response()


def open_client(url: str, *, timeout_seconds: Any) -> redis.Redis:
    """A client whose every connection is guarded. It never repeats a command by itself."""
    return redis.Redis.from_url(
        url,
        decode_responses=True,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=timeout_seconds,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
        redis_connect_func=guard_connection,
    )


@PerProcess
def budget_client() -> redis.Redis:
    return open_client(settings.REDIS_URL, timeout_seconds=settings.REDIS_TIMEOUT_SECONDS)


def one_connection(of: redis.Redis) -> redis.Redis:
    """A client that keeps to a single connection: if the server goes away, its next command fails. To be closed."""
    single: redis.Redis = of.client()  # type: ignore[no-untyped-call]  # untyped there
    return single


def pipelined_answers(single: redis.Redis, commands: Sequence[Sequence[Any]], *, before: str) -> list[Any]:
    """The answers to many calls of one script in one trip, over `one_connection`. A failure closes the connection.

    `before` is the script's text: it is loaded first, each time, since a server that was restarted has forgotten it.
    """
    link: Any = single.connection
    try:
        link.send_packed_command(link.pack_commands([("SCRIPT", "LOAD", before), *commands]))
        return [link.read_response() for _ in range(len(commands) + 1)][1:]
    except BaseException:
        link.disconnect()  # answers that were not read must not be taken for those of another call
        raise


def disconnect_budget_redis() -> None:
    """Close the pool and forget it: before a fork, or when the server has moved."""
    if (old := budget_client.forget()) is not None:
        old.connection_pool.disconnect()
