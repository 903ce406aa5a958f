"""Redis for the whole process: one pool, one loader for the Lua scripts that stand beside their callers."""

from functools import cache
from pathlib import Path

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.commands.core import Script
from redis.retry import Retry

RedisError = redis.RedisError


@cache
def client() -> redis.Redis:
    """The shared, thread-safe client. It never repeats a command by itself: a script that answered late has run."""
    return redis.Redis.from_url(
        settings.REDIS_URL,
        decode_responses=True,
        socket_timeout=settings.REDIS_TIMEOUT_SECONDS,
        socket_connect_timeout=settings.REDIS_TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
    )


def script(path: Path) -> Script:
    """A script from its `.lua` file: EVALSHA, and on NOSCRIPT loaded and called again."""
    return client().register_script(path.read_text(encoding="utf-8"))


def disconnect() -> None:
    """Forget the pool, so that a forked child or a moved server gets connections of its own."""
    if client.cache_info().currsize:
        client().connection_pool.disconnect()
    client.cache_clear()
