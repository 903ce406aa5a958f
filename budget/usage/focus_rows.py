"""Usage in the columns of FOCUS 1.2 (FinOps Open Cost and Usage Specification), for tools that read those.

Every column that the specification calls mandatory is there. One that may be null is null where the platform does not
know it; nothing is made up. What went back of charges has a line of its own, below zero, on the date of its runs:
the file says a period anew, and corrects none in a later one. docs/usage.md says what each column holds.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from budget import csv_lines, ledger
from budget.money import format_exact_usd
from budget.usage import reading
from budget.usage.ranges import UsagePeriod, UsageRange, next_month
from budget.usage.reading import NewestKey, UsageGroup, UsageRow
from tenants.models import Tenant

PLATFORM: Final = "Decision Pack Platform"
COLUMNS: Final = (
    *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd"),
    *("BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency"),
    *("ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "EffectiveCost"),
    *("InvoiceIssuerName", "ListCost", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName"),
    *("ServiceCategory", "ServiceName", "ServiceSubcategory", "Tags"),
    *("x_KeyId", "x_KeyPrefix", "x_KeyLabel", "x_Pack", "x_Reason", "x_Tokens"),
)
_EVERYTHING: Final = tuple(UsageGroup)
_RUNS: Final = "Runs"


def usage_focus_rows(
    asked: UsageRange, period: UsagePeriod, *, own: uuid.UUID | None = None, metadata_key: str | None = None
) -> Iterator[str]:
    """By pack, key and reason at once, and by the value of one key of metadata, which is then the line's tag; as of
    one moment, as the plain CSV is.
    """
    until = ledger.settled_until()
    account = Tenant.objects.values_list("display_name", flat=True).get(tenant_id=asked.tenant_id)
    yield csv_lines.csv_line(COLUMNS)
    for month in asked.months():
        found = reading.read_usage_rows(month, period, _EVERYTHING, until=until, own=own, metadata_key=metadata_key)
        keys = reading.newest_keys(asked.tenant_id, found)
        for row in found:
            for line in _focus_rows_of_usage_row(asked, period, row, keys):
                line["BillingAccountId"], line["BillingAccountName"] = (
                    asked.tenant_id,
                    csv_lines.harmless_csv_cell(account),
                )
                cells = line | {"Tags": _tags(metadata_key, row.metadata_value)}
                yield csv_lines.csv_line([cells[name] for name in COLUMNS])


def _focus_rows_of_usage_row(
    asked: UsageRange, period: UsagePeriod, row: UsageRow, keys: Mapping[uuid.UUID, NewestKey]
) -> Iterator[dict[str, object]]:
    start, end = asked.bounds(row.first, period)
    month = row.first.replace(day=1)
    key = None if row.lineage_id is None else keys.get(row.lineage_id)
    same: dict[str, object] = {
        "BillingCurrency": "USD",
        "BillingPeriodStart": _focus_row_moment(asked.instant(month)),
        "BillingPeriodEnd": _focus_row_moment(asked.instant(next_month(month))),
        "ChargePeriodStart": _focus_row_moment(asked.instant(start)),
        "ChargePeriodEnd": _focus_row_moment(asked.instant(end)),
        "ChargeCategory": "Usage",
        "ChargeClass": None,
        "ChargeFrequency": "Usage-Based",
        "ConsumedUnit": _RUNS,
        "PricingUnit": _RUNS,
        "InvoiceIssuerName": PLATFORM,
        "ProviderName": PLATFORM,
        "PublisherName": PLATFORM,
        "ServiceCategory": "Other",
        "ServiceSubcategory": "Other (Other)",
        "ServiceName": row.pack_type or PLATFORM,
        "x_KeyId": None if key is None else key.key_id,
        "x_KeyPrefix": None if key is None else key.prefix,
        "x_KeyLabel": None if key is None or key.label is None else csv_lines.harmless_csv_cell(key.label),
        "x_Pack": row.pack_type,
        "x_Reason": row.reason or None,
    }
    what = _what(row)
    if row.runs:
        yield same | _costs(row.charged_micros, row.runs, row.tokens, what)
    if row.credited_micros:
        yield same | _costs(-row.credited_micros, 0, 0, f"Given back of {what}")


def _tags(key: str | None, value: str | None) -> str | None:
    """Key and value as a JSON object, which no spreadsheet takes for a formula. Semicolons are escaped: where they
    separate cells, what follows one would begin a cell.
    """
    if key is None or value is None:
        return None
    return json.dumps({key: value}, ensure_ascii=False).replace(";", "\\u003b")


def _costs(micros: int, runs: int, tokens: int, what: str) -> dict[str, object]:
    """There are no discounts and no commitments: what was taken is what was listed, agreed and effective."""
    costs = dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), format_exact_usd(micros))
    return {**costs, "ConsumedQuantity": runs, "PricingQuantity": runs, "x_Tokens": tokens, "ChargeDescription": what}


def _what(row: UsageRow) -> str:
    if row.pack_type is None:
        return "runs"
    return f"runs of {row.pack_type} that {f'failed with {row.reason}' if row.reason else 'completed'}"


def _focus_row_moment(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
