"""A scope with a cap against the books, window by window; a part of the conservation law (verify.py).

What it has used is what its runs of the window were charged, net; what it has counted is that, and what they hold. Its
limits and revision are those in Postgres, but for a change that is on its way: the hold that brings its revision puts
it in force.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from budget.redis.windows import PERIODS, CapPeriod, Counted, cap_window, date_number
from budget.spend import SpendScope
from tenants.models import SpendCap

JUST_CHANGED: Final = timedelta(minutes=1)
AT_ONCE: Final = 100
"""Looked at and counted well within the time that a tenant may be closed for (keys.VERIFY_GATE_MS)."""

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


MovedByDay = Mapping[str | None, Mapping[date, int]]
"""By scope, None for the tenant, and by date."""


@dataclass(frozen=True, slots=True)
class Moves:
    """What Redis counts and the ledger does not, or not any more."""

    charged: MovedByDay
    held: MovedByDay


def by_day(moved: Iterable[tuple[Counted, int]]) -> MovedByDay:
    """Added up once: with many capped keys and many open runs, each scope asks for its own sums alone."""
    found: dict[str | None, dict[date, int]] = {}
    for counted, micros in moved:
        if counted.day is None:
            continue
        for lineage_id in {None, counted.lineage_id}:
            days = found.setdefault(lineage_id, {})
            days[counted.day] = days.get(counted.day, 0) + micros
    return found


def scopes_in_turns(tenant_id: str) -> list[list[str | None]]:
    """Every scope of the tenant that ever had a cap, as many in each turn as are compared while a busy tenant stands
    still. There is one turn at least."""
    found = SpendCap.objects.filter(tenant_id=tenant_id).order_by("cap_id").values_list("lineage_id", flat=True)
    names = [None if lineage_id is None else str(lineage_id) for lineage_id in found]
    return [names[at : at + AT_ONCE] for at in range(0, len(names), AT_ONCE)] or [[]]


def look_at_cap_scopes(client: redis.Redis, tenant_id: str, names: Sequence[str | None]) -> SeenScopes:
    """These scopes, as they stand."""
    if not names:
        return NOT_LOOKED_AT
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            view.queue_caps(pipe, tenant_id, name)
        return dict(zip(names, map(view.seen_caps, pipe.execute()), strict=True))


def read_cap_books(tenant_id: str, caps: SeenScopes) -> Iterator[CapBooks]:
    """Of the scopes that were looked at. One that has counted nothing yet has no date, and nothing is charged on it."""
    if not caps:
        return
    is_new = ExpressionWrapper(Q(changed_at__gt=Now() - JUST_CHANGED), output_field=BooleanField())
    named = Q(lineage_id__in=[name for name in caps if name is not None])
    if None in caps:
        named |= Q(lineage_id__isnull=True)
    rows = list(SpendCap.objects.filter(named, tenant_id=tenant_id).annotate(is_new=is_new))
    asked = {}
    for row in rows:
        seen = caps[_verified_cap_scope_name(row)]
        asked[row] = SpendScope(tenant_id, row.lineage_id, (seen and seen.day) or date.min)
    charged = spend.spent_of_scopes(asked.values())
    for row, scope in asked.items():
        yield CapBooks(
            _verified_cap_scope_name(row),
            row.revision,
            {period: getattr(row, f"{period}_usd_micros") for period in PERIODS},
            {period: getattr(charged[scope], f"{period}_micros") for period in PERIODS},
            is_new=row.is_new,
        )


def compare_cap_books(cap: CapBooks, caps: SeenCaps | None, moves: Moves) -> Iterable[Wrong]:
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


def _within(moves: MovedByDay, lineage_id: str | None, day: date | None, period: CapPeriod) -> int:
    """Of these, what counts for the scope in the window of its date."""
    if day is None:
        return 0
    at = cap_window(date_number(day), period)
    days = moves.get(lineage_id, {})
    return sum(micros for counted, micros in days.items() if cap_window(date_number(counted), period) == at)


def _verified_cap_scope_name(row: SpendCap) -> str | None:
    return None if row.lineage_id is None else str(row.lineage_id)
