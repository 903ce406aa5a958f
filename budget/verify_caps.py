"""A scope with a cap against the books, window by window; a part of the conservation law (verify.py).

What it has used is what its runs of the window were charged, net; what it has counted is that, and what they hold. Its
limits and revision are those in Postgres, but for a change that is on its way: the hold that brings its revision puts
it in force.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from types import MappingProxyType
from typing import Final

import redis
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now

from budget import spend
from budget.redis import view
from budget.redis.view import SeenCaps, SeenScopes
from budget.redis.windows import PERIODS, CapPeriod, Counted, date_number, window
from budget.spend import SpendScope
from tenants.models import SpendCap

JUST_CHANGED: Final = timedelta(minutes=1)

NOT_LOOKED_AT: Final[SeenScopes] = MappingProxyType({})
Wrong = tuple[str, int, int, str]
"""Its kind, what is expected and found, and the scope with its period."""


@dataclass(frozen=True, slots=True)
class CapBooks:
    """A scope as Postgres has it, and what it was charged in the windows of the date that Redis counts."""

    lineage_id: str | None
    revision: int
    limits: Mapping[CapPeriod, int | None]
    charged: Mapping[CapPeriod, int]
    is_new: bool
    """Changed less than a minute ago: it may be on its way to Redis."""


@dataclass(frozen=True, slots=True)
class Moves:
    """What Redis counts and the ledger does not, or not any more: of which runs, and how much."""

    charged: tuple[tuple[Counted, int], ...]
    held: tuple[tuple[Counted, int], ...]


def look(client: redis.Redis, tenant_id: str) -> SeenScopes:
    """Every scope of the tenant that ever had a cap, as it stands."""
    found = SpendCap.objects.filter(tenant_id=tenant_id).values_list("lineage_id", flat=True)
    names = [None if lineage_id is None else str(lineage_id) for lineage_id in found]
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            view.queue_caps(pipe, tenant_id, name)
        return dict(zip(names, map(view.seen_caps, pipe.execute()), strict=True))


def read(tenant_id: str, caps: SeenScopes) -> Iterator[CapBooks]:
    """Of the scopes that were looked at. One that has counted nothing yet has no date, and nothing is charged on it."""
    if not caps:
        return
    is_new = ExpressionWrapper(Q(changed_at__gt=Now() - JUST_CHANGED), output_field=BooleanField())
    rows = [row for row in SpendCap.objects.filter(tenant_id=tenant_id).annotate(is_new=is_new) if _name(row) in caps]
    asked = {}
    for row in rows:
        seen = caps[_name(row)]
        asked[row] = SpendScope(tenant_id, row.lineage_id, (seen and seen.day) or date.min)
    charged = spend.spent(asked.values())
    for row, scope in asked.items():
        yield CapBooks(
            _name(row),
            row.revision,
            {period: getattr(row, f"{period}_usd_micros") for period in PERIODS},
            {period: getattr(charged[scope], f"{period}_micros") for period in PERIODS},
            is_new=row.is_new,
        )


def compare(cap: CapBooks, caps: SeenCaps | None, moves: Moves) -> Iterable[Wrong]:
    """Pure: what does not fit."""
    scope = cap.lineage_id or "tenant"
    if caps is None:
        if not cap.is_new:
            yield "CAP_COUNTED", cap.charged["total"], 0, f"{scope}: lost"
        return
    if caps.revision > cap.revision or (caps.revision == cap.revision and dict(caps.limits) != dict(cap.limits)):
        yield "CAP_LIMITS", cap.revision, caps.revision, scope
    for period in PERIODS:
        used = cap.charged[period] + _within(moves.charged, cap.lineage_id, caps.day, period)
        counted = used + _within(moves.held, cap.lineage_id, caps.day, period)
        if caps.used[period] != used:
            yield "CAP_USED", used, caps.used[period], f"{scope}: {period}"
        if caps.counted[period] != counted:
            yield "CAP_COUNTED", counted, caps.counted[period], f"{scope}: {period}"


def _within(moves: Iterable[tuple[Counted, int]], lineage_id: str | None, day: date | None, period: CapPeriod) -> int:
    """Of these, what counts for the scope in the window of its date."""
    if day is None:
        return 0
    at = window(date_number(day), period)
    return sum(
        micros
        for counted, micros in moves
        if counted.day is not None
        and lineage_id in {None, counted.lineage_id}
        and window(date_number(counted.day), period) == at
    )


def _name(row: SpendCap) -> str | None:
    return None if row.lineage_id is None else str(row.lineage_id)
