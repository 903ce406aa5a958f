"""Usage as JSON: what the API and the command answer. Amounts stand in micros, exact."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from budget.usage import reading
from budget.usage.ranges import UsagePeriod, UsageRange
from budget.usage.reading import NewestKey, UsageGroup, UsageRow, UsageTotals
from dpp_project.refusals import Refusal, invalid

ROWS_MAX: Final = 5_000
"""Of an answer over HTTP: its document takes 4 kB of memory a row while it is made."""
COMPLETED: Final = "COMPLETED"


class UsageKey(BaseModel):
    """A key and all its rotations, by the newest of them."""

    model_config = ConfigDict(frozen=True)

    key_id: UUID
    prefix: str = Field(examples=["dpp_Zx81kQ0b"])
    label: str | None


class UsageAmounts(BaseModel):
    """`net = charged - credited`."""

    model_config = ConfigDict(frozen=True)

    charged_usd_micros: int = Field(examples=[50_000])
    credited_usd_micros: int = Field(description="What went back of charges, such as a dispute's.", examples=[0])
    net_usd_micros: int = Field(examples=[50_000])
    runs: int = Field(description="Runs that were charged.", examples=[1])
    tokens: int = Field(description="Tokens that these runs consumed.", examples=[7])

    @classmethod
    def amounts(cls, of: UsageRow | UsageTotals) -> dict[str, int]:
        return {
            "charged_usd_micros": of.charged_micros,
            "credited_usd_micros": of.credited_micros,
            "net_usd_micros": of.net_micros,
            "runs": of.runs,
            "tokens": of.tokens,
        }


class UsageLine(UsageAmounts):
    period: str = Field(description="A date, or a month.", examples=["2026-11-19"])
    group: str | None = Field(
        description="The pack, the newest key's prefix, the reason of failed runs, COMPLETED of the others, or the "
        "value under `metadata_key`; null without `group_by` and where there is none.",
        examples=["decision"],
    )
    key: UsageKey | None = Field(
        description="With `group_by=key`, unless no key submitted the runs, or one that is not shown."
    )

    @classmethod
    def of(cls, row: UsageRow, period: UsagePeriod, keys: Mapping[UUID, NewestKey]) -> "UsageLine":
        key = None if row.lineage_id is None else keys.get(row.lineage_id)
        return cls(
            period=period.label(row.first),
            group=group_of(row, keys),
            key=None if key is None else UsageKey(key_id=key.key_id, prefix=key.prefix, label=key.label),
            **cls.amounts(row),
        )


def group_of(row: UsageRow, keys: Mapping[UUID, NewestKey]) -> str | None:
    """Of a row of one grouping at most."""
    if row.metadata_value is not None:
        return row.metadata_value
    if row.lineage_id is not None:
        key = keys.get(row.lineage_id)
        return str(row.lineage_id) if key is None else key.prefix
    if row.reason is not None:
        return row.reason or COMPLETED
    return row.pack_type


class Usage(BaseModel):
    """The totals are the sum of the rows, and of the ledger's dated entries of the same range."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    tenant_id: str = Field(examples=["t_demo"])
    zone: str = Field(description="Whose dates these are.", examples=["UTC"])
    from_: date = Field(alias="from", description="The first date.")
    to: date = Field(description="The date behind the last one.")
    by: UsagePeriod
    group_by: UsageGroup | None
    metadata_key: str | None = Field(description="With `group_by=metadata`.")
    begins: date | None = Field(
        description="The first date that has usage at all. Runs that were accepted before dates were kept are in none."
    )
    rows: list[UsageLine]
    totals: UsageAmounts


def usage_document(
    asked: UsageRange,
    period: UsagePeriod,
    group: UsageGroup | None,
    *,
    own: UUID | None = None,
    metadata_key: str | None = None,
    most: int | None = None,
) -> Usage | Refusal:
    """Refused if it has more than `most` rows."""
    groups = () if group is None else (group,)
    limit = None if most is None else most + 1
    found: Sequence[UsageRow] = reading.read_usage_rows(
        asked, period, groups, own=own, metadata_key=metadata_key, limit=limit
    )
    if most is not None and len(found) > most:
        return invalid("from", f"more than {most} rows; ask for fewer days, for by=month, or for CSV, which has no end")
    keys = reading.newest_keys(asked.tenant_id, found)
    return Usage(
        tenant_id=asked.tenant_id,
        zone=asked.zone,
        from_=asked.start,
        to=asked.end,
        by=period,
        group_by=group,
        metadata_key=metadata_key,
        begins=reading.usage_begins(asked.tenant_id),
        rows=[UsageLine.of(row, period, keys) for row in found],
        totals=UsageAmounts(**UsageAmounts.amounts(UsageTotals.of(found))),
    )
