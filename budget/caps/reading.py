"""What has been spent under the caps, as Redis counts it: the figures that holds are judged by, and no others.

Postgres says first which scopes have caps and what day it is there. A scope that Redis has lost, or has of an older
revision, is brought back before it is shown: it is never shown as zero.
"""

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import redis
from django.db import connection

from budget.caps import enforcing, rows
from budget.caps.figures import CapFigures
from budget.outcomes import Closed, Unavailable
from budget.redis import scripts, view
from budget.redis.view import ScopeId, SeenCaps
from budget.redis.windows import PERIODS, CapPeriod, cap_window, date_number

TRIES: Final = 3

_STANDING: Final = """
SELECT known_zone(tenants.zone), tenants.low_balance_usd_micros, (now() AT TIME ZONE known_zone(tenants.zone))::date,
       caps.lineage_id, caps.revision
  FROM tenants
  LEFT JOIN spend_caps caps
         ON caps.tenant_id = tenants.tenant_id
        AND (caps.lineage_id IS NULL OR %(all)s OR caps.lineage_id = ANY (%(lineages)s::uuid[]))
 WHERE tenants.tenant_id = %(tenant_id)s
"""


@dataclass(frozen=True, slots=True)
class CapsStanding:
    """What Postgres knew before Redis was looked at: whose midnight it is, and the revision of each scope's caps."""

    tenant_id: str
    zone: str
    low_micros: int | None
    """Below it the balance is low."""
    today: date
    revisions: Mapping[ScopeId, int]

    @property
    def scopes(self) -> list[ScopeId]:
        return list(self.revisions)


def caps_standing(tenant_id: str, lineages: Collection[uuid.UUID | None] | None = None) -> CapsStanding:
    """Of the tenant's own scope and of these lineages; without any named, of all that ever had a cap."""
    named = [lineage_id for lineage_id in lineages or () if lineage_id is not None]
    values: dict[str, Any] = {"tenant_id": tenant_id, "all": lineages is None, "lineages": named}
    with connection.cursor() as cursor:
        cursor.execute(_STANDING, values)
        found = cursor.fetchall()
    zone, low_micros, today = found[0][:3]
    capped = [(lineage_id, revision) for *_tenant, lineage_id, revision in found if revision is not None]
    in_order = sorted(capped, key=lambda scope: (scope[0] is not None, scope[0]))
    revisions = {None if lineage_id is None else str(lineage_id): revision for lineage_id, revision in in_order}
    return CapsStanding(tenant_id, zone, low_micros, today, revisions)


def missing_caps(stand: CapsStanding, seen: Mapping[ScopeId, SeenCaps | None]) -> list[ScopeId]:
    """Of the scopes that have caps, those that Redis has lost, or has not heard the last change of."""
    return [scope for scope, revision in stand.revisions.items() if _is_behind(seen.get(scope), revision)]


def _is_behind(seen: SeenCaps | None, revision: int) -> bool:
    return seen is None or seen.revision < revision


def brought_back(tenant_id: str, scopes: Iterable[ScopeId]) -> bool:
    """Whether all of them stand again; one rebuild of the tenant, which counts, brings every one of them."""
    found = rows.rows_of(tenant_id)
    wanted = [found[None if scope is None else uuid.UUID(scope)] for scope in scopes]
    return all(enforcing.put_in_force(row) for row in wanted)


def counted_caps(stand: CapsStanding) -> Mapping[ScopeId, SeenCaps] | Unavailable:
    """Every scope that has caps, as of one moment."""
    if not stand.scopes:
        return {}
    client = scripts.shared_scripts().client
    try:
        for _ in range(TRIES):
            mark, seen = view.look_at_scopes(client, stand.tenant_id, stand.scopes)
            if not mark.is_open():
                return Unavailable(Closed.EPOCH)
            lost = missing_caps(stand, seen)
            if not lost:
                return {scope: caps for scope, caps in seen.items() if caps is not None}
            if not brought_back(stand.tenant_id, lost):
                return Unavailable(Closed.CAPS)
    except redis.RedisError:
        return Unavailable(Closed.REDIS)
    return Unavailable(Closed.CAPS)


def cap_figures(stand: CapsStanding, scope: ScopeId, seen: SeenCaps | None) -> list[CapFigures]:
    """Every window of the scope that has a limit. One that ended by the database's date shows nothing spent."""
    if seen is None:
        return []
    day, spent, held = _in_windows(stand, seen)
    return [
        CapFigures(
            scope="tenant" if scope is None else "key",
            period=period,
            day=day,
            zone=stand.zone,
            limit_micros=limit,
            used_micros=spent[period],
            held_micros=held[period],
        )
        for period in PERIODS
        if (limit := seen.limits[period]) is not None
    ]


def spent_now(stand: CapsStanding, seen: SeenCaps) -> dict[CapPeriod, int]:
    return _in_windows(stand, seen)[1]


def _in_windows(stand: CapsStanding, seen: SeenCaps) -> tuple[date, dict[CapPeriod, int], dict[CapPeriod, int]]:
    """The scope's date where it is later than today (a clock set back, a zone moved west): its windows go on."""
    day = max(stand.today, seen.day or stand.today)
    then, now = date_number(seen.day), date_number(day)
    lasting = [period for period in PERIODS if period == "total" or cap_window(then, period) == cap_window(now, period)]
    spent = {period: seen.used[period] if period in lasting else 0 for period in PERIODS}
    held = {period: seen.held(period) if period in lasting else 0 for period in PERIODS}
    return day, spent, held
