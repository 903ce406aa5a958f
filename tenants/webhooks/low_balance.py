"""When a balance crosses its tenant's own line: the crossing and its message are one statement.

A balance is low below the line, and not low any more a tenth above it: one that moves about the line tells once. The
row remembers which it is, by compare-and-set on the number of its crossings: two passes at once tell once.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Q
from psycopg.types.json import Jsonb

from tenants.models import Tenant
from tenants.webhooks.messages import WANTED

CLEARED_AT_PERCENT: Final = 110

_CROSS: Final = f"""
WITH crossed AS (
    UPDATE tenants SET low_balance_since = now(), low_balance_crossings = low_balance_crossings + 1
     WHERE tenant_id = %(tenant_id)s AND low_balance_since IS NULL AND low_balance_crossings = %(crossings)s
       AND low_balance_usd_micros IS NOT NULL
    RETURNING tenant_id, low_balance_crossings
), webhook AS (
    INSERT INTO webhook_message (tenant_id, event, key, payload)
    SELECT tenant_id, event, 'budget_low:' || tenant_id || ':' || low_balance_crossings, %(payload)s
      FROM (SELECT *, 'budget.low' AS event FROM crossed) AS told
     WHERE {WANTED}
    ON CONFLICT DO NOTHING
)
SELECT count(*) FROM crossed
"""  # noqa: S608  of constants


@dataclass(frozen=True, slots=True)
class BalanceLine:
    """A tenant's line, and on which side of it the last pass left the balance."""

    tenant_id: str
    micros: int | None
    low_since: datetime | None
    crossings: int


def balance_lines(*, after: str, limit: int) -> list[BalanceLine]:
    """Those with a line, and those that were low when theirs was taken away; by tenant."""
    watched = Q(low_balance_usd_micros__isnull=False) | Q(low_balance_since__isnull=False)
    rows = Tenant.objects.filter(watched, tenant_id__gt=after).order_by("tenant_id")
    columns = ("tenant_id", "low_balance_usd_micros", "low_balance_since", "low_balance_crossings")
    return [BalanceLine(*row) for row in rows.values_list(*columns)[:limit]]


def judge_balance(line: BalanceLine, *, balance_micros: int, payload: dict[str, Any]) -> bool:
    """Whether this call moved the tenant to the other side."""
    if line.low_since is not None:
        if line.micros is not None and balance_micros * 100 < line.micros * CLEARED_AT_PERCENT:
            return False
        low = Tenant.objects.filter(tenant_id=line.tenant_id, low_balance_crossings=line.crossings)
        return bool(low.filter(low_balance_since__isnull=False).update(low_balance_since=None))
    if line.micros is None or balance_micros >= line.micros:
        return False
    values: dict[str, Any] = {"tenant_id": line.tenant_id, "crossings": line.crossings, "payload": Jsonb(payload)}
    with connection.cursor() as cursor:
        cursor.execute(_CROSS, values)
        (crossed,) = cursor.fetchone()
    return bool(crossed)
