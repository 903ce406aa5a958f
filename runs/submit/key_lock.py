"""The caller's key in Redis (DPP-05): a lock that spares two handlers a race, and a mapping that spares them a query.

Neither decides anything. The unique index on (tenant, key) makes one run of many submits; the lock may lapse under a
slow handler, and the mapping may be lost or out of date, so it is believed only as far as the row it names agrees.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import UUID

import structlog
from redis import RedisError
from redis.client import Pipeline

from budget.redis import connection, keys, view
from budget.redis.view import SeenBalance, SeenScopes
from dpp_project.constants import IDEM_LOCK_TTL_SECONDS, IDEMPOTENCY_MAPPING_TTL_SECONDS
from dpp_project.stores.lua import LuaScript
from runs import turns
from runs.submit import wake_worker

log = structlog.get_logger("dpp.submit")

_LUA: Final = Path(__file__).parents[1] / "lua"
_WRITE_MAPPING: Final = LuaScript(_LUA / "write_mapping.lua")
_UNLOCK: Final = LuaScript(_LUA / "unlock.lua")


class TripMeter(Protocol):
    """How the request is metered: with one command in the trip that takes the lock."""

    def queue(self, pipeline: Pipeline) -> None: ...

    def passed(self, answer: Any, seen: SeenBalance) -> None:
        """Raises to refuse the request."""

    def missed(self, error: RedisError) -> None:
        """Redis did not answer. Raises to refuse the request."""


class EarlyMeter(TripMeter, Protocol):
    """One that can also meter a request before its key is known."""

    def take(self) -> object:
        """In a trip of its own. Raises to refuse the request."""


@dataclass(slots=True)
class KeyLock:
    """A tenant's key, and the token by which this handler knows its own lock."""

    tenant_id: str
    key: str
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    held: bool = False
    """Whether the lock is this handler's to give back."""

    @property
    def lock_name(self) -> str:
        return f"idem_lock:{self.tenant_id}:{self.key}"

    @property
    def mapping_name(self) -> str:
        return f"idem:{self.tenant_id}:{self.key}"


@dataclass(frozen=True, slots=True)
class Found:
    """What one trip to Redis found: was the lock free, is there a run of this key, is there money."""

    entry: Any
    locked: bool
    mapped_run_id: UUID | None
    money: SeenBalance
    open_runs: int
    """The tenant's holds: as many of its runs have not ended."""
    turn: int | None
    """Drawn for a run that is none of the few that need no turn; see turns.py."""
    share_weight: int
    caps: SeenScopes = field(default_factory=dict)
    """Looked at where the caller knows of a cap; nothing is decided by it but a refusal."""


def take_key_lock(
    lock: KeyLock, entry: TripMeter | None, *, capped: Sequence[str | None] = (), share_weight: int = 1
) -> Found:
    """Meter the request, take the lock of its key, read its mapping and the balance, draw a turn: one trip.

    `capped` are the scopes that the caller knows a cap of: None for the tenant, else the lineage of its key. `entry` is
    None for a request that has been metered.

    Raises RedisError; then nothing is known, and a lock that was taken lapses.
    """
    pipeline = connection.budget_client().pipeline(transaction=False)
    if entry is not None:
        entry.queue(pipeline)
    pipeline.set(lock.lock_name, lock.token, nx=True, ex=IDEM_LOCK_TTL_SECONDS)
    pipeline.hget(lock.mapping_name, "run_id")
    view.queue_balance(pipeline, lock.tenant_id)
    turns.queue_draw(
        pipeline,
        tenant_id=lock.tenant_id,
        share_weight=share_weight,
        below=wake_worker.express_below(),
        mapping=lock.mapping_name,
        lock=lock.lock_name,
        token=lock.token,
    )
    for lineage_id in capped:
        view.queue_caps(pipeline, lock.tenant_id, lineage_id)
    found = pipeline.execute()
    entered = None if entry is None else found.pop(0)
    locked, mapped, money, line, *scopes = found
    open_runs, turn = turns.drawn_turn(line)
    lock.held = bool(locked)
    return Found(
        entry=entered,
        locked=lock.held,
        mapped_run_id=None if mapped is None else UUID(mapped),
        money=view.seen_balance(money),
        open_runs=open_runs,
        turn=turn,
        share_weight=share_weight,
        caps={lineage_id: view.seen_caps(seen) for lineage_id, seen in zip(capped, scopes, strict=True)},
    )


def write_mapping(lock: KeyLock, *, run_id: UUID, payload_hash: str, created_at_ms: int) -> None:
    """Write the mapping, to last as long as the key, and release the lock: one trip.

    The run must be RESERVED: the trip also leaves evidence that Postgres knows of it.

    Without Redis neither happens: the lock lapses, and a replay finds the row by its key.
    """
    lock.held = False
    names = [lock.mapping_name, lock.lock_name, keys.EVIDENCE]
    ends = created_at_ms // 1_000 + IDEMPOTENCY_MAPPING_TTL_SECONDS
    values: list[str | int] = [str(run_id), payload_hash, created_at_ms, ends, lock.token]
    _try(lambda: _WRITE_MAPPING(connection.budget_client(), keys=names, args=values), "mapping not written")


def release_key_lock(lock: KeyLock) -> None:
    """Give the lock back, if it is still ours; without Redis it lapses."""
    lock.held = False
    _try(lambda: _UNLOCK(connection.budget_client(), keys=[lock.lock_name], args=[lock.token]), "lock not released")


def forget_mapping(lock: KeyLock) -> None:
    """The key is free again: drop its mapping. One that stays behind names a row that no longer has the key."""
    _try(lambda: connection.budget_client().delete(lock.mapping_name), "mapping not dropped")


def _try(act: Callable[[], object], otherwise: str) -> None:
    try:
        act()
    except RedisError as error:
        log.warning(otherwise, exc_info=error)
