"""A tenant's money in Redis as it was seen at one instant. All that only reads it reads it here.

Every script that changes a tenant's money raises its sequence. What was read from Postgres between two looks with the
same mark (epoch, gate and sequence) belongs to the state in between.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

import redis
from redis.client import Pipeline

from budget.money import stored_micros
from budget.redis import keys
from budget.redis.windows import PERIODS, CapPeriod, day_of

CHUNK: Final = 1_000


@dataclass(frozen=True, slots=True)
class Mark:
    """Equal marks: nothing changed in between."""

    epoch: str | None
    gate: str | None
    seq: str | None

    def is_open(self) -> bool:
        return self.epoch is not None and not self.epoch.startswith(keys.CLOSED_PREFIX)


@dataclass(frozen=True, slots=True)
class SeenBalance:
    """`balance_micros` is None where it is unknown: it is lost, or all money is closed. Unknown is not zero."""

    mark: Mark
    balance_micros: int | None


UNKNOWN: Final = SeenBalance(Mark(None, None, None), None)


ScopeId = str | None
"""A lineage of keys; None is the tenant itself."""


@dataclass(frozen=True, slots=True)
class SeenMoney(SeenBalance):
    holds: Mapping[str, int]
    caps: Mapping[ScopeId, "SeenCaps | None"] = field(default_factory=dict)
    """Of the scopes that were asked for."""
    unreadable: tuple[str | None, ...] = ()
    """Runs whose hold is no amount, and so not among `holds`; None: the key is no hash, and every hold is lost."""

    @property
    def held_micros(self) -> int:
        return sum(self.holds.values())


@dataclass(frozen=True, slots=True)
class SeenReceipt:
    charge_micros: int
    refund_micros: int


@dataclass(frozen=True, slots=True)
class SeenCaps:
    """A scope as it stands: its limits, and what its runs hold and were charged in the windows that `day` lies in."""

    revision: int
    day: date | None
    """None before its first run."""
    limits: Mapping[CapPeriod, int | None]
    counted: Mapping[CapPeriod, int]
    used: Mapping[CapPeriod, int]

    def held(self, period: CapPeriod) -> int:
        return self.counted[period] - self.used[period]


SeenScopes = Mapping[ScopeId, SeenCaps | None]
"""A scope that is absent or cut was seen as None."""

_CAPS_FIELDS: Final = ("revision", "date", "limits", "counted", "used")
_FOUR: Final = re.compile(r"(-?[0-9]{1,18}) (-?[0-9]{1,18}) (-?[0-9]{1,18}) (-?[0-9]{1,18})", re.ASCII)
_HOLD: Final = re.compile(r"[0-9]{1,16}", re.ASCII)
_LIMITS: Final = re.compile(r"([0-9]+|-) ([0-9]+|-) ([0-9]+|-) ([0-9]+|-)", re.ASCII)


def queue_caps(pipe: Pipeline, tenant_id: str, lineage_id: str | None = None) -> None:
    """Put a look at a scope into a pipeline of other commands; read its answer with `seen_caps`."""
    pipe.hmget(keys.caps_key(tenant_id, lineage_id), _CAPS_FIELDS)


def seen_caps(answer: Sequence[str | None]) -> SeenCaps | None:
    """None where the scope is absent, or is not what the scripts write: it is lost then, and never zero."""
    revision, number, *fours = (text or "" for text in answer)
    limits, *counters = (form.fullmatch(text) for form, text in zip((_LIMITS, _FOUR, _FOUR), fours, strict=True))
    if not number or not revision.isdecimal() or limits is None:
        return None
    counted, used = (
        {} if four is None else dict(zip(PERIODS, map(int, four.groups()), strict=True)) for four in counters
    )
    try:
        day = day_of(number)
    except ValueError:
        return None
    allowed = {it: None if text == "-" else int(text) for it, text in zip(PERIODS, limits.groups(), strict=True)}
    return SeenCaps(int(revision), day, allowed, counted, used) if counted and used else None


def look_at_caps(client: redis.Redis, tenant_id: str, lineage_id: str | None = None) -> SeenCaps | None:
    found: Any = client.hmget(keys.caps_key(tenant_id, lineage_id), _CAPS_FIELDS)
    return seen_caps(found)


def queue_balance(pipe: Pipeline, tenant_id: str) -> None:
    """Put a look at the balance into a pipeline of other commands; read its answer with `seen_balance`.

    Such a balance is shown, and it spares work that must fail. Nothing is decided by it: the hold asks again.
    """
    pipe.mget(_redis_balance_view_keys(tenant_id))


def seen_balance(answer: Sequence[str | None]) -> SeenBalance:
    epoch, gate, seq, balance = answer
    mark = Mark(epoch, gate, seq)
    return SeenBalance(mark, stored_micros(balance) if mark.is_open() else None)


def look_at_balance(client: redis.Redis, tenant_id: str) -> SeenBalance:
    found: Any = client.mget(_redis_balance_view_keys(tenant_id))
    return seen_balance(found)


def look_at_money(client: redis.Redis, tenant_id: str, scopes: Sequence[ScopeId] = ()) -> SeenMoney:
    """Balance and holds, and what is counted in these scopes, in one step of the server."""
    with client.pipeline(transaction=True) as pipe:
        queue_balance(pipe, tenant_id)
        pipe.hgetall(keys.holds_key(tenant_id))
        for lineage_id in scopes:
            queue_caps(pipe, tenant_id, lineage_id)
        found, held, *counted = pipe.execute(raise_on_error=False)
    for answer in (found, *counted):
        if isinstance(answer, redis.RedisError):
            raise answer
    seen, (holds, unreadable) = seen_balance(found), _seen_holds(held)
    caps = {scope: seen_caps(answer) for scope, answer in zip(scopes, counted, strict=True)}
    return SeenMoney(seen.mark, seen.balance_micros, holds, caps, unreadable)


def _seen_holds(answer: Mapping[str, str] | redis.RedisError) -> tuple[dict[str, int], tuple[str | None, ...]]:
    """The holds, and what stands there and is none, as the scripts take it (lua/run_hold.lua)."""
    if isinstance(answer, redis.RedisError):
        return {}, (None,)
    holds = {run_id: int(text) for run_id, text in answer.items() if _HOLD.fullmatch(text)}
    return holds, tuple(run_id for run_id in answer if run_id not in holds)


def look_at_scopes(
    client: redis.Redis, tenant_id: str, scopes: Sequence[ScopeId]
) -> tuple[Mark, dict[ScopeId, SeenCaps | None]]:
    """What is counted in many scopes of a tenant, in one step of the server, and whether it may be read."""
    with client.pipeline(transaction=True) as pipe:
        queue_balance(pipe, tenant_id)
        for lineage_id in scopes:
            queue_caps(pipe, tenant_id, lineage_id)
        found, *counted = pipe.execute()
    return seen_balance(found).mark, {scope: seen_caps(answer) for scope, answer in zip(scopes, counted, strict=True)}


def _redis_balance_view_keys(tenant_id: str) -> list[str]:
    return [keys.EPOCH, keys.gate_key(tenant_id), keys.seq_key(tenant_id), keys.balance_key(tenant_id)]


def seen_receipts(client: redis.Redis, run_ids: Iterable[str]) -> dict[str, SeenReceipt]:
    """The receipts there are, of these runs."""
    asked = list(run_ids)
    found: dict[str, SeenReceipt] = {}
    for at in range(0, len(asked), CHUNK):
        chunk = asked[at : at + CHUNK]
        written: Any = client.mget([keys.receipt_key(run_id) for run_id in chunk])
        found |= {run_id: _receipt(text) for run_id, text in zip(chunk, written, strict=True) if text is not None}
    return found


def _receipt(text: str) -> SeenReceipt:
    charge, refund, _balance, _tenant = text.split(" ", 3)
    return SeenReceipt(int(charge), int(refund))


def applied_credits(client: redis.Redis, entry_ids: Iterable[str]) -> set[str]:
    """Which of these credits have reached the balance."""
    asked = list(entry_ids)
    with client.pipeline(transaction=False) as pipe:
        for entry_id in asked:
            pipe.exists(keys.credit_key(entry_id))
        answers = pipe.execute()
    return {entry_id for entry_id, there in zip(asked, answers, strict=True) if there}
