"""A month of usage as a page shows it: each of its days, and what packs and keys came to."""

import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeVar

from budget.usage import ranges, reading
from budget.usage.ranges import UsagePeriod, UsageRange
from budget.usage.reading import UsageGroup, UsageRow, UsageTotals

Group = TypeVar("Group")
NO_KEY = "no key"
UNKNOWN_PACK = "unknown"


@dataclass(frozen=True, slots=True)
class UsageOverview:
    """Packs and keys stand in the order of what they cost, the dearest first."""

    asked: UsageRange
    begins: date | None
    days: Sequence[tuple[date, UsageTotals]]
    packs: Sequence[tuple[str, UsageTotals]]
    keys: Sequence[tuple[str, UsageTotals]]
    total: UsageTotals


def usage_overview(tenant_id: str, *, month: date | None = None, own: uuid.UUID | None = None) -> UsageOverview | None:
    """The running month, or that of a date, of one view; None where there is no such tenant.

    `own`: told apart by key only this lineage is, as in `reading.read_usage_rows`.
    """
    first = None if month is None else month.replace(day=1)
    asked = ranges.usage_range(tenant_id, start=first, end=None if first is None else ranges.next_month(first))
    if not isinstance(asked, UsageRange):
        return None
    found = reading.read_usage_rows(asked, UsagePeriod.DAY, (UsageGroup.PACK, UsageGroup.KEY), own=own)
    days = dict(_summed(found, lambda row: row.first))
    names = {
        lineage_id: f"{key.prefix} {key.label}" if key.label else key.prefix
        for lineage_id, key in reading.newest_keys(tenant_id, found).items()
    }
    every_day = [asked.start + timedelta(days=after) for after in range((asked.end - asked.start).days)]
    return UsageOverview(
        asked,
        reading.usage_begins(tenant_id),
        [(day, days.get(day, UsageTotals.of(()))) for day in every_day],
        _dearest(found, lambda row: row.pack_type or UNKNOWN_PACK),
        _dearest(found, lambda row: _key_name(row.lineage_id, names)),
        UsageTotals.of(found),
    )


def _key_name(lineage_id: uuid.UUID | None, names: Mapping[uuid.UUID, str]) -> str:
    return NO_KEY if lineage_id is None else names.get(lineage_id, str(lineage_id))


def _summed(rows: Sequence[UsageRow], group: Callable[[UsageRow], Group]) -> Mapping[Group, UsageTotals]:
    parts: dict[Group, list[UsageRow]] = defaultdict(list)
    for row in rows:
        parts[group(row)].append(row)
    return {name: UsageTotals.of(part) for name, part in parts.items()}


def _dearest(rows: Sequence[UsageRow], group: Callable[[UsageRow], str]) -> list[tuple[str, UsageTotals]]:
    return sorted(_summed(rows, group).items(), key=lambda item: (-item[1].net_micros, item[0]))
