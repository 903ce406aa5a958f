"""Usage as rows: the days of spending, and the entries since the tenant's last daily sum with their runs.

One statement is one view: its rows add up to the ledger's entries of these dates at that moment. A reader that takes
several, month by month, gives each the same `until`, before which no entry can appear any more: what is added while it
reads is in none of them. A daily sum that is written meanwhile moves entries from one part to the other, and changes
no row.
"""

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Final

from django.db import connection

from budget import ports
from budget.usage.ranges import UsagePeriod, UsageRange
from tenants.models import ApiKey
from tenants.principals import Principal
from tenants.scopes import Scope

NO_LINEAGE: Final = uuid.UUID(int=0)


class UsageGroup(StrEnum):
    PACK = "pack"
    KEY = "key"
    REASON = "reason"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A period's usage of one group; what it is not told apart by is None."""

    first: date
    """Of the period."""
    pack_type: str | None
    """None also where the run's row had gone before its entry was summed up."""
    reason: str | None
    """Why the runs failed, "" where they completed; None as above."""
    lineage_id: uuid.UUID | None
    """None also where no key submitted the runs."""
    metadata_value: str | None
    """None also of runs without the key, and of those whose metadata went: with the run's row, or when deleted."""
    charged_micros: int
    credited_micros: int
    runs: int
    """That were charged."""
    tokens: int
    """Of those runs."""

    @property
    def net_micros(self) -> int:
        return self.charged_micros - self.credited_micros


@dataclass(frozen=True, slots=True)
class UsageTotals:
    charged_micros: int
    credited_micros: int
    runs: int
    tokens: int

    @property
    def net_micros(self) -> int:
        return self.charged_micros - self.credited_micros

    @classmethod
    def of(cls, rows: Iterable["UsageRow | UsageTotals"]) -> "UsageTotals":
        charged = credited = runs = tokens = 0
        for row in rows:
            charged += row.charged_micros
            credited += row.credited_micros
            runs += row.runs
            tokens += row.tokens
        return cls(charged, credited, runs, tokens)


_SINCE: Final = """
    coalesce((SELECT through FROM balance_snapshots
               WHERE tenant_id = %(tenant_id)s AND has_spend_days ORDER BY through DESC LIMIT 1), '-infinity')
"""
_USAGE: Final = """
SELECT CASE WHEN %(by_month)s::boolean THEN date_trunc('month', spend_day)::date ELSE spend_day END AS period,
       CASE WHEN %(by_pack)s::boolean AND pack_type <> '' THEN pack_type END AS pack,
       CASE WHEN %(by_reason)s::boolean AND pack_type <> '' THEN reason END AS ended,
       CASE WHEN %(by_key)s::boolean AND lineage_id = coalesce(%(own)s::uuid, lineage_id) THEN lineage_id END AS line,
       told,
       sum(charged)::bigint, sum(credited)::bigint, sum(runs)::bigint, sum(tokens)::bigint
  FROM (
        SELECT spend_day, pack_type, reason, lineage_id, NULL AS told,
               charged_usd_micros AS charged, credited_usd_micros AS credited, runs, tokens
          FROM spend_days
         WHERE tenant_id = %(tenant_id)s AND spend_day >= %(start)s::date AND spend_day < %(end)s::date
        UNION ALL
        SELECT spend_day, coalesce(sold.pack_type, ''), coalesce(sold.reason, ''), entries.lineage_id, NULL,
               CASE WHEN kind = 'CHARGE' THEN -amount_usd_micros ELSE 0 END,
               CASE WHEN kind = 'ADJUST' THEN amount_usd_micros ELSE 0 END,
               CASE WHEN kind = 'CHARGE' THEN 1 ELSE 0 END,
               CASE WHEN kind = 'CHARGE' THEN coalesce(sold.tokens, 0) ELSE 0 END
          FROM ledger_entries entries LEFT JOIN ({sold}) sold ON sold.run_id = entries.run_id
         WHERE entries.tenant_id = %(tenant_id)s AND entries.created_at >= {since}
           AND entries.created_at < coalesce(%(until)s::timestamptz, 'infinity')
           AND spend_day >= %(start)s::date AND spend_day < %(end)s::date
        {told}
       ) parts
 GROUP BY 1, 2, 3, 4, 5
HAVING (sum(charged), sum(credited), sum(runs)) <> (0, 0, 0)
 ORDER BY 1, 2, 3, 4, 5
 LIMIT %(limit)s
"""

_TOLD: Final = """
        UNION ALL
        SELECT spend_day, sold.pack_type, sold.reason, paid.lineage_id, CASE WHEN sign = 1 THEN told.value END,
               CASE WHEN kind = 'CHARGE' THEN sign * -amount_usd_micros ELSE 0 END,
               CASE WHEN kind = 'ADJUST' THEN sign * amount_usd_micros ELSE 0 END,
               CASE WHEN kind = 'CHARGE' THEN sign ELSE 0 END,
               CASE WHEN kind = 'CHARGE' THEN sign * sold.tokens ELSE 0 END
          FROM ledger_entries paid JOIN ({sold}) sold ON sold.run_id = paid.run_id
          JOIN ({metadata}) told ON told.run_id = paid.run_id, (VALUES (1), (-1)) AS twice (sign)
         WHERE paid.tenant_id = %(tenant_id)s AND paid.created_at >= %(start)s::date - interval '3 days'
           AND paid.created_at < coalesce(%(until)s::timestamptz, 'infinity')
           AND spend_day >= %(start)s::date AND spend_day < %(end)s::date
"""
"""The entries of runs with this metadata, twice: to their value, and taken from what has none. So whatever of it is
read or not, the groups add up to the whole. An entry is no older than its date but for a clock set back."""


def read_usage_rows(
    asked: UsageRange,
    period: UsagePeriod,
    groups: Collection[UsageGroup] = (),
    *,
    until: datetime | None = None,
    own: uuid.UUID | None = None,
    metadata_key: str | None = None,
    limit: int | None = None,
) -> list[UsageRow]:
    """By period, then by group. Entries that count on no date are in none.

    With `metadata_key` also by the values that runs have under it.

    `own`: told apart by key only this lineage is; what other keys spent is with what no key did.
    """
    values: dict[str, Any] = {
        "tenant_id": asked.tenant_id,
        "start": asked.start,
        "end": asked.end,
        "by_month": period is UsagePeriod.MONTH,
        "by_pack": UsageGroup.PACK in groups,
        "by_reason": UsageGroup.REASON in groups,
        "by_key": UsageGroup.KEY in groups,
        "until": until,
        "own": own,
        "limit": limit,
        "metadata_key": metadata_key,
    }
    runs = ports.committed_runs()
    told = "" if metadata_key is None else _TOLD.format(sold=runs.sold(), metadata=runs.metadata_values())
    with connection.cursor() as cursor:
        cursor.execute(_USAGE.format(sold=runs.sold(), since=_SINCE, told=told), values)
        return [UsageRow(*row) for row in cursor.fetchall()]


_BEGINS: Final = """
SELECT least((SELECT min(spend_day) FROM spend_days WHERE tenant_id = %(tenant_id)s),
             (SELECT min(spend_day) FROM ledger_entries WHERE tenant_id = %(tenant_id)s AND created_at >= {since}))
"""


def usage_begins(tenant_id: str) -> date | None:
    """The first date that has usage: runs that were accepted before dates were kept count on none."""
    with connection.cursor() as cursor:
        cursor.execute(_BEGINS.format(since=_SINCE), {"tenant_id": tenant_id})
        (found,) = cursor.fetchone()
    first: date | None = found
    return first


_CHARGED: Final = """
        SELECT tenant_id, spend_day, charged_usd_micros AS charged FROM spend_days
         WHERE spend_day >= %(start)s::date AND spend_day < %(end)s::date
        UNION ALL
        SELECT tenants.tenant_id, entries.spend_day, entries.charged
          FROM tenants
          LEFT JOIN LATERAL (
                SELECT through FROM balance_snapshots
                 WHERE tenant_id = tenants.tenant_id AND has_spend_days ORDER BY through DESC LIMIT 1
               ) summed ON true
          JOIN LATERAL (
                SELECT spend_day, -sum(amount_usd_micros) AS charged FROM ledger_entries
                 WHERE tenant_id = tenants.tenant_id AND kind = 'CHARGE'
                   AND spend_day >= %(start)s::date AND spend_day < %(end)s::date
                   AND created_at >= coalesce(summed.through, '-infinity') AND created_at < 'infinity'
                 GROUP BY spend_day
               ) entries ON true
"""
_CHARGED_BY_DAY: Final = f"SELECT spend_day, sum(charged)::bigint FROM ({_CHARGED}) parts GROUP BY spend_day"  # noqa: S608
_CHARGED_MOST: Final = f"""
WITH parts AS ({_CHARGED}),
     most AS (SELECT tenant_id, sum(charged) AS whole FROM parts GROUP BY tenant_id ORDER BY 2 DESC, 1 LIMIT %(most)s)
SELECT tenant_id, spend_day, sum(charged)::bigint
  FROM most JOIN parts USING (tenant_id) GROUP BY tenant_id, whole, spend_day ORDER BY whole DESC, tenant_id, spend_day
"""  # noqa: S608  its parts stand above
_NET_BY_PACK: Final = """
SELECT pack_type, sum(charged_usd_micros - credited_usd_micros)::bigint, sum(runs)::bigint
  FROM spend_days WHERE spend_day >= %(start)s::date AND spend_day < %(end)s::date
 GROUP BY pack_type ORDER BY 2 DESC, 1
"""


def charged_by_day(*, start: date, end: date) -> dict[date, int]:
    """Of all tenants, each on its own dates."""
    with connection.cursor() as cursor:
        cursor.execute(_CHARGED_BY_DAY, {"start": start, "end": end})
        return dict(cursor.fetchall())


def alone_seen(principal: Principal) -> uuid.UUID | None:
    """The one lineage that has rows of its own: with `keys:write` all have, as in the list of keys."""
    if Scope.KEYS_WRITE in principal.scopes:
        return None
    return principal.lineage_id or NO_LINEAGE


def charged_most(*, start: date, end: date, most: int) -> dict[str, dict[date, int]]:
    """Of the tenants that were charged most, by day; the first spent the most."""
    found: dict[str, dict[date, int]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_CHARGED_MOST, {"start": start, "end": end, "most": most})
        for tenant_id, day, micros in cursor.fetchall():
            found.setdefault(tenant_id, {})[day] = micros
    return found


def net_by_pack(*, start: date, end: date) -> list[tuple[str, int, int]]:
    """What each pack brought in and how many runs were charged, of all tenants, up to the daily sums."""
    with connection.cursor() as cursor:
        cursor.execute(_NET_BY_PACK, {"start": start, "end": end})
        return list(cursor.fetchall())


@dataclass(frozen=True, slots=True)
class NewestKey:
    """The last of a line of rotations."""

    key_id: uuid.UUID
    prefix: str
    label: str | None


def newest_keys(tenant_id: str, of: Iterable[UsageRow]) -> Mapping[uuid.UUID, NewestKey]:
    """Of these rows, by lineage: a tenant may have made very many keys that spent nothing."""
    lineages = {row.lineage_id for row in of if row.lineage_id is not None}
    if not lineages:
        return {}
    keys = ApiKey.objects.filter(tenant_id=tenant_id, lineage_id__in=lineages)
    found = keys.order_by("lineage_id", "-created_at", "-key_id")
    newest = found.distinct("lineage_id").values_list("lineage_id", "key_id", "prefix", "label")
    return {lineage_id: NewestKey(key_id, f"dpp_{prefix}", label) for lineage_id, key_id, prefix, label in newest}
