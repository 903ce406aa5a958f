"""A tenant's money in Redis at one instant, and whether it stood still while something else was read.

Every script that changes a tenant's money raises its sequence. What was read from Postgres between two looks with the
same epoch and sequence belongs to the state in between.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import redis

from budget.money import stored_micros
from budget.redis import keys

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
class Frame:
    mark: Mark
    balance_micros: int | None
    holds: Mapping[str, int]

    @property
    def held_micros(self) -> int:
        return sum(self.holds.values())


@dataclass(frozen=True, slots=True)
class Receipt:
    charge_micros: int
    refund_micros: int


def look(client: redis.Redis, tenant_id: str) -> Frame:
    """Balance and holds in one step of the server."""
    with client.pipeline(transaction=True) as pipe:
        _queue_mark(pipe, tenant_id)
        pipe.get(keys.balance(tenant_id))
        pipe.hgetall(keys.holds(tenant_id))
        (epoch, gate, seq), balance, holds = pipe.execute()
    return Frame(
        Mark(epoch, gate, seq),
        stored_micros(balance),
        {run_id: int(micros) for run_id, micros in holds.items()},
    )


def mark(client: redis.Redis, tenant_id: str) -> Mark:
    found: Any = client.mget(keys.EPOCH, keys.gate(tenant_id), keys.seq(tenant_id))
    return Mark(*found)


def receipts(client: redis.Redis, run_ids: Iterable[str]) -> dict[str, Receipt]:
    """The receipts there are, of these runs."""
    asked = list(run_ids)
    found: dict[str, Receipt] = {}
    for at in range(0, len(asked), CHUNK):
        chunk = asked[at : at + CHUNK]
        written: Any = client.mget([keys.receipt(run_id) for run_id in chunk])
        found |= {run_id: _receipt(text) for run_id, text in zip(chunk, written, strict=True) if text is not None}
    return found


def _receipt(text: str) -> Receipt:
    charge, refund, _balance, _tenant = text.split(" ", 3)
    return Receipt(int(charge), int(refund))


def applied(client: redis.Redis, entry_ids: Iterable[str]) -> set[str]:
    """Which of these credits have reached the balance."""
    asked = list(entry_ids)
    with client.pipeline(transaction=False) as pipe:
        for entry_id in asked:
            pipe.exists(keys.credit(entry_id))
        answers = pipe.execute()
    return {entry_id for entry_id, there in zip(asked, answers, strict=True) if there}


def _queue_mark(pipe: redis.client.Pipeline, tenant_id: str) -> None:
    pipe.mget(keys.EPOCH, keys.gate(tenant_id), keys.seq(tenant_id))
