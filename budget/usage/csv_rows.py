"""Usage as CSV: the rows, then their total, read month by month as they are taken."""

import uuid
from collections.abc import Iterator
from typing import Final

from budget import csv_lines, ledger
from budget.money import format_exact_usd
from budget.usage import reading
from budget.usage.documents import group_of
from budget.usage.ranges import UsagePeriod, UsageRange
from budget.usage.reading import UsageGroup, UsageRow, UsageTotals

HEADER: Final = (
    *("period", "group", "key_id", "label", "charged_usd_micros", "credited_usd_micros", "net_usd_micros", "net_usd"),
    *("runs", "tokens"),
)


def usage_csv_rows(
    asked: UsageRange,
    period: UsagePeriod,
    group: UsageGroup | None,
    *,
    own: uuid.UUID | None = None,
    metadata_key: str | None = None,
) -> Iterator[str]:
    """As of the moment before which no entry can appear any more: what is added while it is read is in no line."""
    groups = () if group is None else (group,)
    until = ledger.settled_until()
    total = UsageTotals.of(())
    yield csv_lines.csv_line(HEADER)
    for month in asked.months():
        found = reading.read_usage_rows(month, period, groups, until=until, own=own, metadata_key=metadata_key)
        keys = reading.newest_keys(asked.tenant_id, found)
        for row in found:
            key = None if row.lineage_id is None else keys.get(row.lineage_id)
            told = () if key is None else (key.key_id, csv_lines.harmless_csv_cell(key.label or ""))
            name = csv_lines.harmless_csv_cell(group_of(row, keys) or "")
            yield csv_lines.csv_line((period.label(row.first), name, *(told or ("", "")), *_csv_amounts(row)))
        total = UsageTotals.of((total, *found))
    yield csv_lines.csv_line(("TOTAL", "", "", "", *_csv_amounts(total)))


def _csv_amounts(of: UsageRow | UsageTotals) -> tuple[object, ...]:
    net = format_exact_usd(of.net_micros)
    return (of.charged_micros, of.credited_micros, of.net_micros, net, of.runs, of.tokens)
