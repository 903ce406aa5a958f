"""The caller's key in Redis (DPP-05): a lock that spares two handlers a race, and a mapping that spares them a query.

Neither decides anything. The unique index on (tenant, key) makes one run of many submits; the lock may lapse under a
slow handler, and the mapping may be lost or out of date, so it is believed only as far as the row it names agrees.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

import structlog
from redis import RedisError

from budget.redis import connection, view
from budget.redis.view import SeenBalance
from dpp_project.constants import IDEM_LOCK_TTL_SECONDS, IDEMPOTENCY_MAPPING_TTL_SECONDS
from dpp_project.stores.lua import LuaScript
from tenants import rate_limits
from tenants.principals import Principal
from tenants.rate_limits import Bucket, Decision

log = structlog.get_logger("dpp.submit")

_LUA: Final = Path(__file__).parents[1] / "lua"
_WRITE_MAPPING: Final = LuaScript(_LUA / "write_mapping.lua")
_UNLOCK: Final = LuaScript(_LUA / "unlock.lua")


@dataclass(frozen=True, slots=True)
class Door:
    """A tenant's key, and the token by which this handler knows its own lock."""

    tenant_id: str
    key: str
    token: str

    @property
    def lock_name(self) -> str:
        return f"idem_lock:{self.tenant_id}:{self.key}"

    @property
    def mapping_name(self) -> str:
        return f"idem:{self.tenant_id}:{self.key}"


@dataclass(frozen=True, slots=True)
class Opening:
    """What one trip to Redis found: may we, are we alone, was it done before, is there money."""

    door: Door
    rate: Decision
    locked: bool
    mapped_run_id: UUID | None
    money: SeenBalance


def open_door(principal: Principal, key: str) -> Opening:
    """Take a token from the submit bucket and the lock of this key, read its mapping and the balance: one trip.

    Raises RedisError; then nothing is known, and a lock that was taken lapses.
    """
    door = Door(principal.tenant_id, key, secrets.token_hex(16))
    pipeline = connection.client().pipeline(transaction=False)
    rate_limits.queue_check(pipeline, principal, Bucket.SUBMIT)
    pipeline.set(door.lock_name, door.token, nx=True, ex=IDEM_LOCK_TTL_SECONDS)
    pipeline.hget(door.mapping_name, "run_id")
    view.queue_balance(pipeline, principal.tenant_id)
    rate, locked, mapped, money = pipeline.execute()
    return Opening(
        door=door,
        rate=rate_limits.decide(rate, bucket=Bucket.SUBMIT, limit=rate_limits.limit_of(principal, Bucket.SUBMIT)),
        locked=bool(locked),
        mapped_run_id=None if mapped is None else UUID(mapped),
        money=view.seen_balance(money),
    )


def write_mapping(door: Door, *, run_id: UUID, payload_hash: str, created_at_ms: int) -> None:
    """Write the mapping, to last as long as the key, and release the lock: one trip.

    Without Redis neither happens: the lock lapses, and a replay finds the row by its key.
    """
    names = [door.mapping_name, door.lock_name]
    ends = created_at_ms // 1_000 + IDEMPOTENCY_MAPPING_TTL_SECONDS
    values: list[str | int] = [str(run_id), payload_hash, created_at_ms, ends, door.token]
    _try(lambda: _WRITE_MAPPING(connection.client(), keys=names, args=values), "mapping not written")


def release(door: Door) -> None:
    """Give the lock back, if it is still ours; without Redis it lapses."""
    _try(lambda: _UNLOCK(connection.client(), keys=[door.lock_name], args=[door.token]), "lock not released")


def forget(door: Door) -> None:
    """The key is free again: drop its mapping. One that stays behind names a row that no longer has the key."""
    _try(lambda: connection.client().delete(door.mapping_name), "mapping not dropped")


def _try(act: Callable[[], object], otherwise: str) -> None:
    try:
        act()
    except RedisError as error:
        log.warning(otherwise, exc_info=error)
