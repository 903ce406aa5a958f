"""Messages that a spend cap is reached: one statement writes the message, and notes in the caps' row that it did.

The note names, for each period and percent, the window and the revision of the caps in it. So a message of one window,
or before a change, holds back none of the next; there are twelve such notes at most, and a change of the caps may leave
them alone. Of two at once one writes: the second waits for the first, and finds its note. What has its note already
takes no lock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from django.db import connection
from django.db.models import DateField, F, Func, QuerySet
from psycopg.types.json import Jsonb

from tenants.models import SpendCap
from tenants.webhooks.messages import WANTED

PERIODS: Final = ("day", "week", "month", "total")
_LIMITS: Final = tuple(f"{period}_usd_micros" for period in PERIODS)

_TELL: Final = f"""
WITH marked AS (
    UPDATE spend_caps SET told = told || %(mark)s
     WHERE cap_id = %(cap_id)s AND revision = %(revision)s AND NOT told @> %(mark)s
    RETURNING tenant_id, lineage_id
), webhook AS (
    INSERT INTO webhook_message (tenant_id, event, key, payload)
    SELECT tenant_id, event, %(key)s, %(payload)s || jsonb_build_object('key', (
           SELECT jsonb_build_object('key_id', key_id, 'prefix', prefix, 'label', label) FROM api_keys
            WHERE api_keys.tenant_id = told.tenant_id AND api_keys.lineage_id = told.lineage_id
            ORDER BY created_at DESC, key_id LIMIT 1))
      FROM (SELECT *, 'cap.reached' AS event FROM marked) AS told
     WHERE {WANTED}
    ON CONFLICT DO NOTHING
)
SELECT count(*) FROM marked
"""  # noqa: S608  of constants


@dataclass(frozen=True, slots=True)
class CappedScope:
    """A tenant, or a key with its rotations, that has limits: as its row is, and what date it is there."""

    cap_id: str
    tenant_id: str
    lineage_id: str | None
    """None: the tenant itself."""
    revision: int
    limits: Mapping[str, int | None]
    told: Mapping[str, str]
    zone: str
    today: date
    """By the database's clock, in the tenant's zone."""

    def was_told(self, *, period: str, window: str, percent: int) -> bool:
        return self._mark(period, window, percent).items() <= self.told.items()

    def tell(self, *, period: str, window: str, percent: int, payload: Mapping[str, Any]) -> bool:
        """Whether this call wrote the message. It does not where the caps were changed since the row was read."""
        whose = self.tenant_id if self.lineage_id is None else f"{self.tenant_id}:{self.lineage_id}"
        values: dict[str, Any] = {
            "cap_id": self.cap_id,
            "revision": self.revision,
            "mark": Jsonb(self._mark(period, window, percent)),
            "key": f"cap:{whose}:{period}:{window}:{percent}:{self.revision}",
            "payload": Jsonb(payload),
        }
        with connection.cursor() as cursor:
            cursor.execute(_TELL, values)
            (told,) = cursor.fetchone()
        return bool(told)

    def _mark(self, period: str, window: str, percent: int) -> dict[str, str]:
        return {f"{period}:{percent}": f"{window}:{self.revision}"}


def scopes_with_caps(*, after: str | None, limit: int) -> list[CappedScope]:
    """Those with a limit at least, by the id of their row."""
    rows = SpendCap.objects.exclude(**{f"{limit_of}__isnull": True for limit_of in _LIMITS}).order_by("cap_id")
    return _capped_scopes_for_webhooks(rows if after is None else rows.filter(cap_id__gt=after), limit)


def scope_with_caps(*, tenant_id: str, lineage_id: str | None) -> CappedScope | None:
    found = _capped_scopes_for_webhooks(SpendCap.objects.filter(tenant_id=tenant_id, lineage_id=lineage_id), 1)
    return found[0] if found else None


def _capped_scopes_for_webhooks(rows: QuerySet[SpendCap], limit: int) -> list[CappedScope]:
    zone = Func(F("tenant__zone"), function="known_zone")
    today = Func(zone, template="(now() AT TIME ZONE %(expressions)s)::date", output_field=DateField())
    columns = ("cap_id", "tenant_id", "lineage_id", "revision", "told", "zone", "today", *_LIMITS)
    found = rows.annotate(zone=zone, today=today).values_list(*columns)[:limit]
    return [
        CappedScope(
            str(cap_id),
            tenant_id,
            None if lineage_id is None else str(lineage_id),
            revision,
            dict(zip(PERIODS, limits, strict=True)),
            told,
            zone,
            its_today,
        )
        for cap_id, tenant_id, lineage_id, revision, told, zone, its_today, *limits in found
    ]
