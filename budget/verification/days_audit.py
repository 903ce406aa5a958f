"""The days of spending against the entries they were summed up from, and usage against the ledger.

A walk of the ledger sees each entry once and keeps no sum for each date and key, of which there may be many. It keeps
one number: each entry's amount times a weight of its date, its key and its kind, added up. The days, weighted alike,
must come to the same. Where they do not, one statement over the tenant's whole ledger names the dates that are wrong.
Pack, reason and tokens are the run's, whose row goes after a year: they are not compared.
"""

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Self

from django.db import connection
from django.db.models import Sum

from budget.models import BalanceSnapshot, LedgerEntry, SpendDay
from budget.usage import ranges, reading
from budget.usage.ranges import UsagePeriod, UsageRange
from budget.usage.reading import UsageTotals
from budget.verification.verify import Difference, DifferenceKind

NAMED_MAX: Final = 20
BEFORE_ITS_DATE: Final = timedelta(days=2)
"""No zone is so far east that an entry is written so long before its date begins in UTC."""


@dataclass(frozen=True, slots=True)
class DaysWalk:
    """`weighed` is what the entries so far come to, `at_sum` what those before the last daily sum on the way did."""

    weighed: int = 0
    through: datetime | None = None
    at_sum: int = 0

    def document(self) -> dict[str, Any]:
        """As JSON holds it: no reader of whole numbers may round it."""
        through = None if self.through is None else self.through.isoformat()
        return {"weighed": str(self.weighed), "through": through, "at_sum": str(self.at_sum)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        through = document["through"]
        at = None if through is None else datetime.fromisoformat(through)
        return cls(int(document["weighed"]), at, int(document["at_sum"]))

    def behind(self, found: Sequence[LedgerEntry], sums: Iterable[datetime]) -> "DaysWalk":
        """After these entries, among which these daily sums with days end."""
        walk, at = self, 0
        for through in sums:
            before = at
            while at < len(found) and found[at].created_at < through:
                at += 1
            weighed = walk.weighed + _weighed_entries(found[before:at])
            walk = DaysWalk(weighed, through, weighed)
        return replace(walk, weighed=walk.weighed + _weighed_entries(found[at:]))


@lru_cache(maxsize=8_192)
def _weight(lineage_id: uuid.UUID | None, day: date, what: str) -> int:
    told = f"{lineage_id}|{day}|{what}".encode()
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest())


def _weighed_entries(found: Iterable[LedgerEntry]) -> int:
    weighed = 0
    for entry in found:
        if entry.spend_day is None:
            continue
        if entry.kind == LedgerEntry.Kind.CHARGE:
            weighed -= entry.amount_usd_micros * _weight(entry.lineage_id, entry.spend_day, "charged")
            weighed += _weight(entry.lineage_id, entry.spend_day, "runs")
        else:
            weighed += entry.amount_usd_micros * _weight(entry.lineage_id, entry.spend_day, "credited")
    return weighed


def sums_with_days(tenant_id: str, *, after: datetime | None, until: datetime) -> list[datetime]:
    found = BalanceSnapshot.objects.filter(tenant_id=tenant_id, has_spend_days=True, through__lte=until)
    if after is not None:
        found = found.filter(through__gt=after)
    return list(found.order_by("through").values_list("through", flat=True))


def wrong_days(tenant_id: str, walk: DaysWalk) -> Iterator[Difference]:
    """At the end of a walk. A daily sum that was written behind the walk is left to the next one."""
    last = BalanceSnapshot.objects.filter(tenant_id=tenant_id, has_spend_days=True).order_by("-through").first()
    if (None if last is None else last.through) != walk.through:
        return
    days = SpendDay.objects.filter(tenant_id=tenant_id).values_list("lineage_id", "spend_day")
    weighed = 0
    sums = days.annotate(Sum("charged_usd_micros"), Sum("credited_usd_micros"), Sum("runs")).order_by()
    for lineage_id, day, charged, credited, runs in sums:
        for what, amount in (("charged", charged), ("credited", credited), ("runs", runs)):
            weighed += int(amount) * _weight(lineage_id, day, what)
    if weighed != walk.at_sum:
        yield from _spend_days_of_wrong_sum(tenant_id, walk.through)


_WRONG: Final = """
SELECT coalesce(days.spend_day, entries.spend_day) AS day, coalesce(days.lineage_id, entries.lineage_id),
       coalesce(entries.charged - entries.credited, 0)::bigint, coalesce(days.charged - days.credited, 0)::bigint
  FROM (SELECT spend_day, lineage_id, sum(charged_usd_micros) AS charged, sum(credited_usd_micros) AS credited,
               sum(runs) AS runs
          FROM spend_days WHERE tenant_id = %(tenant_id)s GROUP BY 1, 2) days
  FULL JOIN (
        SELECT spend_day, lineage_id, coalesce(-sum(amount_usd_micros) FILTER (WHERE kind = 'CHARGE'), 0) AS charged,
               coalesce(sum(amount_usd_micros) FILTER (WHERE kind = 'ADJUST'), 0) AS credited,
               count(*) FILTER (WHERE kind = 'CHARGE') AS runs
          FROM ledger_entries
         WHERE tenant_id = %(tenant_id)s AND spend_day IS NOT NULL AND created_at < %(through)s::timestamptz
         GROUP BY 1, 2) entries
    ON entries.spend_day = days.spend_day
       AND coalesce(entries.lineage_id, %(no_key)s::uuid) = coalesce(days.lineage_id, %(no_key)s::uuid)
 WHERE (days.charged, days.credited, days.runs) IS DISTINCT FROM (entries.charged, entries.credited, entries.runs)
 ORDER BY 1, 2 LIMIT %(limit)s
"""


def _spend_days_of_wrong_sum(tenant_id: str, through: datetime | None) -> Iterator[Difference]:
    values = {"tenant_id": tenant_id, "through": through, "no_key": uuid.UUID(int=0), "limit": NAMED_MAX}
    with connection.cursor() as cursor:
        cursor.execute(_WRONG, values)
        for day, lineage_id, expected, found in cursor.fetchall():
            where = f"{day} {'without a key' if lineage_id is None else f'of key line {lineage_id}'}"
            yield Difference(DifferenceKind.SPEND_DAY_OF_ANOTHER_SUM, expected, found, where=where)


def wrong_usage(tenant_id: str) -> Iterator[Difference]:
    """The running month as a tenant reads it, against its entries, added up plainly."""
    asked = ranges.usage_range(tenant_id)
    if not isinstance(asked, UsageRange):  # the tenant is gone
        return
    told = UsageTotals.of(reading.read_usage_rows(asked, UsagePeriod.MONTH))
    entries = LedgerEntry.objects.filter(
        tenant_id=tenant_id,
        spend_day__gte=asked.start,
        spend_day__lt=asked.end,
        created_at__gte=asked.instant(asked.start) - BEFORE_ITS_DATE,
    )
    net = -(entries.aggregate(net=Sum("amount_usd_micros"))["net"] or 0)
    if net != told.net_micros:
        where = f"{asked.start} to {asked.end}"
        yield Difference(DifferenceKind.USAGE_OF_ANOTHER_SUM, net, told.net_micros, where=where)
