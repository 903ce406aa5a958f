"""What a tenant, or one of its keys with its rotations, has spent in a day, a week, a month and ever.

The days of spending hold what stands before the tenant's last daily sum; the entries since are added to them. What a
run came to counts on its own date, whenever its entries were written: a charge less what went back of it.
"""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from django.db import connection


@dataclass(frozen=True, slots=True)
class SpendScope:
    """Whose spending is asked for, and the date whose day, week and month are meant. `lineage_id=None`: the tenant."""

    tenant_id: str
    lineage_id: uuid.UUID | None
    day: date


@dataclass(frozen=True, slots=True)
class Spent:
    """Net: what was charged less what went back, in the windows that `day` lies in."""

    day: date
    day_micros: int = 0
    week_micros: int = 0
    month_micros: int = 0
    total_micros: int = 0


# Postgres knows no entry's distance to `since` when it plans; of a range with two ends it expects little, and reads the
# tenant's own index, whatever else stands in the table.
_SPENT: Final = """
WITH asked AS (
    SELECT * FROM unnest(%(tenants)s::text[], %(lineages)s::uuid[], %(days)s::date[])
                  WITH ORDINALITY AS asked (tenant_id, lineage_id, today, place)
),
owners AS (
    SELECT tenant_id, coalesce(max(through), '-infinity') AS since
      FROM (SELECT DISTINCT tenant_id FROM asked) asked
      LEFT JOIN LATERAL (
            SELECT through FROM balance_snapshots
             WHERE tenant_id = asked.tenant_id AND has_spend_days ORDER BY through DESC LIMIT 1
           ) summed ON true
     GROUP BY tenant_id
),
spent AS MATERIALIZED (
    SELECT tenant_id, lineage_id, spend_day, sum(net) AS net
      FROM (
            SELECT tenant_id, lineage_id, spend_day, charged_usd_micros - credited_usd_micros AS net
              FROM owners JOIN spend_days USING (tenant_id)
            UNION ALL
            SELECT tenant_id, entries.lineage_id, entries.spend_day, -entries.amount_usd_micros
              FROM owners
              JOIN LATERAL (
                    SELECT lineage_id, spend_day, sum(amount_usd_micros) AS amount_usd_micros FROM ledger_entries
                     WHERE tenant_id = owners.tenant_id AND spend_day IS NOT NULL
                       AND created_at >= owners.since AND created_at < 'infinity'
                     GROUP BY lineage_id, spend_day
                   ) entries ON true
           ) parts
     GROUP BY tenant_id, lineage_id, spend_day
),
found AS (
    SELECT place, today, spend_day, net FROM asked JOIN spent USING (tenant_id) WHERE asked.lineage_id IS NULL
    UNION ALL
    SELECT place, today, spend_day, net FROM asked JOIN spent USING (tenant_id, lineage_id)
),
counted AS (
    SELECT place, spend_day, net,
           CASE WHEN %(or_newest)s THEN greatest(today, max(spend_day) OVER (PARTITION BY place))
                ELSE today END AS today
      FROM found
)
SELECT place, max(today),
       coalesce(sum(net) FILTER (WHERE spend_day = today), 0)::bigint,
       coalesce(sum(net) FILTER (WHERE date_trunc('week', spend_day) = date_trunc('week', today)), 0)::bigint,
       coalesce(sum(net) FILTER (WHERE date_trunc('month', spend_day) = date_trunc('month', today)), 0)::bigint,
       sum(net)::bigint
  FROM counted GROUP BY place
"""


def spent_of_scopes(scopes: Iterable[SpendScope], *, or_newest: bool = False) -> dict[SpendScope, Spent]:
    """Of every scope asked for, in one statement: each of its tenants is read once, however many of its keys are asked.

    `or_newest`: where a scope has spent on a later date than was asked for, the windows of that date. A clock that was
    set back then begins no window a second time.

    It sees what the caller's transaction sees.
    """
    asked: Collection[SpendScope] = tuple(dict.fromkeys(scopes))
    values: dict[str, Any] = {
        "tenants": [scope.tenant_id for scope in asked],
        "lineages": [scope.lineage_id for scope in asked],
        "days": [scope.day for scope in asked],
        "or_newest": or_newest,
    }
    with connection.cursor() as cursor:
        cursor.execute(_SPENT, values)
        found = {place: Spent(*micros) for place, *micros in cursor.fetchall()}
    return {scope: found.get(place, Spent(scope.day)) for place, scope in enumerate(asked, start=1)}
