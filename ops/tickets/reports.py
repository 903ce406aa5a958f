"""TICKET_REAPER_REPORT_V1 as it is written, and where: the document says both exactly.

`schemas/` describes report and receipt in JSON Schema, for readers elsewhere.
"""

import json
from datetime import datetime
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field

from dpp_project.aws import prefixes
from ops.tickets.models import Ticket
from ops.tickets.transitions import AUTO_CLEANUP

LATEST_PATH: Final = f"{prefixes.REPORT_LATEST}reaper_latest.json"
CONTENT_TYPE: Final = "application/json; charset=utf-8"

_AT: Final[dict[str, Any]] = {"format": "date-time"}


class CleanedItem(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    request_id: str
    request_type: str
    last_processed_at: str = Field(
        description="Of a ticket never processed, when it went IN_PROGRESS.", json_schema_extra=_AT
    )
    reason: Literal["AUTO_CLEANUP_STALE_IN_PROGRESS"] = AUTO_CLEANUP


class Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_: Literal["TICKET_REAPER_REPORT_V1"] = Field(default="TICKET_REAPER_REPORT_V1", alias="schema")
    asof: str = Field(json_schema_extra=_AT, examples=["2026-01-23T21:00:00+09:00"])
    decision: Literal["NONE", "CLEANED"] = Field(description="NONE exactly when cleaned_count is 0.")
    threshold_seconds: int
    stale_count: int = Field(description="All that were stale; those above `max_clean` are left to the next run.")
    cleaned_count: int
    cleaned_items: list[CleanedItem]
    evidence_refs: list[str] = Field(description="Paths in the storage.")

    def document(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)

    def content(self) -> str:
        return json.dumps(self.document(), ensure_ascii=False, indent=2) + "\n"


def reaper_report(*, asof: datetime, threshold_seconds: int, stale_count: int, cleaned: list[CleanedItem]) -> Report:
    return Report(
        asof=report_time_text(asof),
        decision="CLEANED" if cleaned else "NONE",
        threshold_seconds=threshold_seconds,
        stale_count=stale_count,
        cleaned_count=len(cleaned),
        cleaned_items=cleaned,
        evidence_refs=[snapshot_path(asof)],
    )


def cleaned_item(ticket: Ticket, *, touched_at: datetime) -> CleanedItem:
    return CleanedItem(
        request_id=str(ticket.pk), request_type=ticket.request_type, last_processed_at=report_time_text(touched_at)
    )


def report_time_text(at: datetime) -> str:
    """To the second, with the offset of the configured zone."""
    return report_time(at).isoformat(timespec="seconds")


def report_time(at: datetime) -> datetime:
    return at.astimezone(ZoneInfo(settings.REPORT_TIME_ZONE))


def snapshot_path(asof: datetime) -> str:
    return f"{prefixes.REPORT_SNAPSHOTS}reaper_{report_time(asof):%Y%m%d_%H%M%S}.json"
