"""What each scope with a cap must have counted, worked out from the database, in pieces.

A scope's date is the latest of today, of what it was charged on, and of its open runs, those at money NONE included: a
clock that was set back, or a zone moved west, begins no window a second time. Counted is what it was charged in the
windows of that date, net, and what its open runs hold there. A run that was settled and is not committed yet is held
again in full, so more may be counted than was, until its finisher settles.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Final

from django.db import connection

from budget import ports, spend
from budget.redis.items import RebuildItem, caps_item
from budget.redis.view import SeenCaps
from budget.redis.windows import PERIODS, CapPeriod, cap_window, date_number
from budget.spend import SpendScope, Spent
from tenants.models import SpendCap

AT_ONCE: Final = 1_000
_TODAY: Final = """
SELECT tenant_id, (now() AT TIME ZONE known_zone(zone))::date FROM tenants WHERE tenant_id = ANY(%s)
"""

ScopeOfRow = tuple[str, uuid.UUID | None]
_HeldByDay = dict[ScopeOfRow, dict[date, int]]


def scope_items(tenant_id: str | None) -> Iterator[tuple[str, RebuildItem]]:
    """Of one tenant, or of all. It sees what the caller's transaction sees."""
    rows = SpendCap.objects.order_by("tenant_id", "lineage_id")
    if tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    some: list[SpendCap] = []
    for row in rows.iterator(chunk_size=AT_ONCE):
        some.append(row)
        if len(some) == AT_ONCE:
            yield from _items(some)
            some = []
    yield from _items(some)


def _items(rows: Sequence[SpendCap]) -> Iterator[tuple[str, RebuildItem]]:
    for row, counted in scopes_of(rows):
        yield row.tenant_id, caps_item(None if row.lineage_id is None else str(row.lineage_id), counted)


def scopes_of(rows: Sequence[SpendCap]) -> Iterator[tuple[SpendCap, SeenCaps]]:
    """Each scope as it must stand."""
    if not rows:
        return
    tenant_ids = list({row.tenant_id for row in rows})
    held, today = _rebuilt_scope_holds_by_day(tenant_ids), _today(tenant_ids)
    asked = {row: SpendScope(row.tenant_id, row.lineage_id, _day(row, held, today)) for row in rows}
    found = spend.spent_of_scopes(asked.values(), or_newest=True)
    for row, scope in asked.items():
        yield row, _rebuilt_scope_caps(row, found[scope], held.get((row.tenant_id, row.lineage_id), {}))


def _day(row: SpendCap, held: _HeldByDay, today: Mapping[str, date]) -> date:
    return max([today[row.tenant_id], *held.get((row.tenant_id, row.lineage_id), {})])


def _rebuilt_scope_caps(row: SpendCap, spent: Spent, held: Mapping[date, int]) -> SeenCaps:
    used: dict[CapPeriod, int] = {period: getattr(spent, f"{period}_micros") for period in PERIODS}
    counted = dict(used)
    at = date_number(spent.day)
    for day, micros in held.items():
        for period in PERIODS:
            if cap_window(date_number(day), period) == cap_window(at, period):
                counted[period] += micros
    limits: dict[CapPeriod, int | None] = {period: getattr(row, f"{period}_usd_micros") for period in PERIODS}
    return SeenCaps(row.revision, spent.day, limits, counted, used)


def _rebuilt_scope_holds_by_day(tenant_ids: Sequence[str]) -> _HeldByDay:
    """By scope: each run counts for its tenant, and for the lineage of its key where it has one."""
    found: _HeldByDay = {}
    for it in ports.open_runs().held_by_date(tenant_ids=tenant_ids):
        for lineage_id in {None, it.lineage_id}:
            days = found.setdefault((it.tenant_id, lineage_id), {})
            days[it.day] = days.get(it.day, 0) + it.micros
    return found


def _today(tenant_ids: Sequence[str]) -> dict[str, date]:
    with connection.cursor() as cursor:
        cursor.execute(_TODAY, [list(tenant_ids)])
        return dict(cursor.fetchall())
