"""Which dates a question about usage means. Dates are those of the tenant's zone; the database says which is today."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Final

from django.db import connection

from budget.redis.windows import clock_of
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid

DAYS_MAX: Final = 400
FIRST_YEAR: Final = 2000
LAST_YEAR: Final = 2999
_ZONE_AND_TODAY: Final = """
SELECT known_zone(zone), (now() AT TIME ZONE known_zone(zone))::date FROM tenants WHERE tenant_id = %s
"""
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


class UsagePeriod(StrEnum):
    DAY = "day"
    MONTH = "month"

    def label(self, first: date) -> str:
        """`2026-11-19`, or `2026-11` of a month."""
        return first.isoformat() if self is UsagePeriod.DAY else f"{first:%Y-%m}"


@dataclass(frozen=True, slots=True)
class UsageRange:
    """From the first date, included, to the last, excluded."""

    tenant_id: str
    zone: str
    start: date
    end: date

    def months(self) -> Iterator["UsageRange"]:
        """The same range, month by month."""
        start = self.start
        while start < self.end:
            end = min(next_month(start), self.end)
            yield UsageRange(self.tenant_id, self.zone, start, end)
            start = end

    def bounds(self, first: date, period: UsagePeriod) -> tuple[date, date]:
        """Of the period that begins so: what of it lies in the range."""
        after = first + timedelta(days=1) if period is UsagePeriod.DAY else next_month(first)
        return max(first, self.start), min(after, self.end)

    def instant(self, day: date) -> datetime:
        """Its first moment, in UTC."""
        return datetime(day.year, day.month, day.day, tzinfo=clock_of(self.zone)).astimezone(UTC)


def next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)


def read_date(text: str) -> date:
    """Raises ValueError with what to write instead."""
    try:
        found = date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        found = None
    if found is None or not FIRST_YEAR <= found.year <= LAST_YEAR:
        raise ValueError(f"give a date from {FIRST_YEAR} to {LAST_YEAR}, such as 2026-11-19")
    return found


def zone_and_today(tenant_id: str) -> tuple[str, date] | None:
    """By the database's clock, which dates the runs as well."""
    with connection.cursor() as cursor:
        cursor.execute(_ZONE_AND_TODAY, [tenant_id])
        found: tuple[str, date] | None = cursor.fetchone()
    return found


def usage_range(tenant_id: str, *, start: date | None = None, end: date | None = None) -> UsageRange | Refusal:
    """Without dates the running month. Alone, `start` means up to its end, and `end` the month before it ends.

    The refusal's field is tenant_id, from or to.
    """
    found = zone_and_today(tenant_id)
    if found is None:
        return Refusal(ReasonCode.NOT_FOUND, f"there is no tenant {tenant_id}", "tenant_id")
    zone, today = found
    end_day = next_month(today) if end is None else end
    first = (end_day - timedelta(days=1)).replace(day=1) if start is None else start
    if first >= end_day:
        return invalid("from", f"must lie before `to`, which is excluded and here {end_day}")
    if (end_day - first).days > DAYS_MAX:
        return invalid("from", f"at most {DAYS_MAX} days before `to`, here {end_day}; ask again for what lies before")
    return UsageRange(tenant_id, zone, first, end_day)
