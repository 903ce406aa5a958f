"""Redis for the whole process: one pool."""

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from dpp_project.processes.per_process import PerProcess

RedisError = redis.RedisError


@PerProcess
def redis_client() -> redis.Redis:
    """The shared, thread-safe client. It never repeats a command by itself: a script that answered late has run."""
    return redis.Redis.from_url(
        settings.REDIS_URL,
        decode_responses=True,
        socket_timeout=settings.REDIS_TIMEOUT_SECONDS,
        socket_connect_timeout=settings.REDIS_TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
    )


def disconnect_redis() -> None:
    """Close the pool and forget it: before a fork, or when the server has moved."""
    if (old := redis_client.forget()) is not None:
        old.connection_pool.disconnect()
