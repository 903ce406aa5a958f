"""How many runs of a tenant's concurrency key may be at work at once; see turns.py for how it is kept."""

from dataclasses import dataclass
from typing import Final

from django.db import transaction

from dpp_project.audit import trail
from runs import turns
from runs.models import ConcurrencyLimit, RunTurn
from runs.submit import next_of_key

LIMITS_MOST: Final = 1_000
"""Keys of a tenant with another limit than one."""


class TooManyLimits(Exception):  # noqa: N818  an outcome
    """The tenant has as many limits as it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    key: str
    limit: int
    at_work: int
    waiting: int


def read_key(tenant_id: str, key: str) -> KeyState:
    """A key that no run has named is as any other: one at a time."""
    of_key = RunTurn.objects.filter(tenant_id=tenant_id, concurrency_key=key)
    waiting = of_key.exclude(stands=RunTurn.Stands.AT_WORK).count()
    at_work, limit = turns.at_work(tenant_id, key), turns.most_of(tenant_id, key)
    return KeyState(key=key, limit=limit, at_work=at_work, waiting=waiting)


def set_limit(tenant_id: str, key: str, *, limit: int, actor: str) -> KeyState:
    """Safe to repeat. Of runs at work none is stopped by a lower one; a higher one wakes what is parked.

    Dying after the commit leaves the waking to the requeuer. Raises TooManyLimits.
    """
    with transaction.atomic():
        turns.lock_key(tenant_id, key)
        mine = ConcurrencyLimit.objects.filter(tenant_id=tenant_id)
        stood = mine.filter(key=key).values_list("most_at_work", flat=True).first()
        if limit == 1:
            mine.filter(key=key).delete()
        elif stood is not None:
            mine.filter(key=key).update(most_at_work=limit)
        elif mine.count() >= LIMITS_MOST:
            raise TooManyLimits
        else:
            ConcurrencyLimit.objects.create(tenant_id=tenant_id, key=key, most_at_work=limit)
        if (stood or 1) != limit:
            trail.record_in_trail(
                "concurrency limit set",
                actor=actor,
                subject=f"concurrency key {key}",
                tenant_id=tenant_id,
                before={"limit": stood or 1},
                after={"limit": limit},
            )
    next_of_key.wake_next_if_possible(tenant_id, key)
    return read_key(tenant_id, key)
