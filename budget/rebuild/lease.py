"""One rebuild at a time, over all machines: a lease in Redis that its holder renews as it gets on.

A holder that is frozen, unplugged or dead stops renewing, and LEASE_SECONDS later another may begin. Nothing else rests
on it: a holder that wakes up behind its lease is refused by the gate it no longer closes. It lives where the gate lives
and goes with it: while Redis does not answer nothing is rebuilt, and a Redis that was emptied is rebuilt at once.
"""

import contextlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import redis

from budget.redis import keys
from dpp_project.stores.lua import LuaScript

LEASE_SECONDS: Final = 25
"""Above the longest step between two renewals: one statement, which is given up after 20 s (stores/postgres.py)."""
_LEASE: Final = LuaScript(Path(__file__).parent.parent.joinpath("redis", "lua", "rebuild_lease.lua"))


class RebuildLease:
    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._token = uuid.uuid4().hex

    def renewed(self) -> bool:
        """Taken where it is free, kept where it is ours; False where another rebuild has it."""
        return self._ask("take")

    def free(self) -> None:
        with contextlib.suppress(redis.RedisError):  # it runs out by itself
            self._ask("free")

    def _ask(self, what: str) -> bool:
        answer = _LEASE(self._client, keys=[keys.REBUILD], args=[what, self._token, LEASE_SECONDS * 1_000])
        return bool(answer == 1)


@contextmanager
def rebuild_lease(client: redis.Redis) -> Iterator[RebuildLease | None]:
    """The lease, or None where another rebuild is at work."""
    lease = RebuildLease(client)
    if not lease.renewed():
        yield None
        return
    try:
        yield lease
    finally:
        lease.free()
