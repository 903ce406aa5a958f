"""What each key of a tenant has spent, with its rotations: today, this week, this month and ever, capped or not."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from budget import spend
from budget.caps import reading
from budget.caps.figures import CapFigures
from budget.caps.reading import CapsStanding
from budget.outcomes import Unavailable
from budget.redis.view import SeenCaps
from budget.redis.windows import CapPeriod
from budget.spend import SpendScope, Spent


@dataclass(frozen=True, slots=True)
class KeySpending:
    """`caps` are the windows with a limit; `spent` has all four."""

    spent: Mapping[CapPeriod, int]
    caps: Sequence[CapFigures]
    revision: int
    """Of its caps; 0 where it never had any."""


def spending_of(tenant_id: str, lineages: Collection[uuid.UUID]) -> dict[uuid.UUID, KeySpending] | Unavailable:
    """Of these lineages: as Redis counts those that ever had a cap, and as the ledger has it of the others.

    The two agree but for charges on their way from the one to the other, which takes milliseconds.
    """
    stand = reading.caps_standing(tenant_id, lineages)
    counted = reading.counted_caps(stand)
    if isinstance(counted, Unavailable):
        return counted
    others = [SpendScope(tenant_id, one, stand.today) for one in lineages if str(one) not in counted]
    of_ledger = (
        {scope.lineage_id: _by_period(spent) for scope, spent in spend.spent_of_scopes(others).items()}
        if others
        else {}
    )
    return {one: _spending(stand, one, counted.get(str(one)), of_ledger.get(one)) for one in lineages}


def _spending(
    stand: CapsStanding, lineage_id: uuid.UUID, seen: SeenCaps | None, of_ledger: Mapping[CapPeriod, int] | None
) -> KeySpending:
    if seen is None:
        return KeySpending(of_ledger or _by_period(Spent(stand.today)), (), 0)
    scope = str(lineage_id)
    return KeySpending(reading.spent_now(stand, seen), reading.cap_figures(stand, scope, seen), seen.revision)


def _by_period(spent: Spent) -> dict[CapPeriod, int]:
    return {
        "day": spent.day_micros,
        "week": spent.week_micros,
        "month": spent.month_micros,
        "total": spent.total_micros,
    }
