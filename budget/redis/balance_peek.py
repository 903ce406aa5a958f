"""A balance read beside other commands, in a pipeline of its reader. It is shown, and it spares work that must fail;
nothing is decided by it: the hold asks again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from redis.client import Pipeline

from budget.money import stored_micros
from budget.redis import keys


@dataclass(frozen=True, slots=True)
class Glance:
    """`open` is False while all money is being rebuilt, or waits for it. An unknown balance is not zero."""

    open: bool
    balance_micros: int | None


UNKNOWN = Glance(open=False, balance_micros=None)


def queue(pipeline: Pipeline, tenant_id: str) -> None:
    pipeline.mget(keys.EPOCH, keys.balance(tenant_id))


def read(answer: Sequence[str | None]) -> Glance:
    epoch, micros = answer
    if epoch is None or epoch.startswith(keys.CLOSED_PREFIX):
        return UNKNOWN
    return Glance(open=True, balance_micros=stored_micros(micros))
