"""Waits for the next pass of a loop, or for a hint that something changed (hints.py), whichever comes first."""

import threading
import time
from typing import TYPE_CHECKING, Final

import structlog

from dpp_project.stores import redis
from dpp_project.stores.redis import RedisError
from ops.workspaces import hints

if TYPE_CHECKING:
    from redis.client import PubSub

log = structlog.get_logger("dpp.workspaces")

LISTEN_SECONDS: Final = 0.5
"""How long the end of the process waits at most."""
LEAST_SECONDS: Final = 0.05
"""Between two passes: hints that come together make one."""


class Listener:
    """One loop's. Without Redis it waits as long as it would have waited for a hint."""

    def __init__(self) -> None:
        self._channel: PubSub | None = None

    def wait(self, stop: threading.Event, *, seconds: float) -> None:
        end = time.monotonic() + seconds
        if stop.wait(LEAST_SECONDS):
            return
        while not stop.is_set() and (left := end - time.monotonic()) > 0:
            try:
                if self._heard(min(left, LISTEN_SECONDS)):
                    self._drain()
                    return
            except RedisError as error:
                log.info("no hints are heard, Redis is away", error=type(error).__name__)
                self.close()
                stop.wait(left)
                return

    def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _heard(self, seconds: float) -> bool:
        if self._channel is None:
            channel: PubSub = redis.redis_client().pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
            channel.subscribe(hints.CHANNEL)
            self._channel = channel
        return self._channel.get_message(timeout=seconds) is not None

    def _drain(self) -> None:
        """The pass that follows sees whatever they were about."""
        while self._channel is not None and self._channel.get_message(timeout=0) is not None:
            pass
