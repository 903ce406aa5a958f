"""What the addresses of tickets take and answer."""

from datetime import datetime
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from drf_spectacular.utils import OpenApiExample
from pydantic import BaseModel, ConfigDict, Field, RootModel, StrictInt, StrictStr, create_model

from dpp_project.http.cursors import CursorParameter
from dpp_project.http.openapi import answer_example
from ops.tickets import reports
from ops.tickets.models import TEXT_LENGTH_MAX, Ticket
from ops.tickets.processors import PROCESSORS
from ops.tickets.states import RequestType, TicketStatus

THRESHOLD_MAX = 31_536_000
CLEAN_MAX = 1_000


class TicketsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=200, description="Tickets on a page.")] = 50
    cursor: CursorParameter = None
    status: Annotated[TicketStatus | None, Field(description="Only such tickets.")] = None
    request_type: Annotated[RequestType | None, Field(description="Only such tickets.")] = None


class TicketRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    request_type: RequestType
    payload: dict[str, Any]
    reason: Annotated[StrictStr, Field(max_length=TEXT_LENGTH_MAX, description="Why, for later readers.")] = ""


def open_ticket_request() -> type[BaseModel]:
    """How the document says it: one model for each type, with the payload that belongs to it."""
    models = [_of_type(one.request_type, one.payload, f"{one.summary} {one.waits()}") for one in PROCESSORS.values()]
    root: Any = RootModel
    return type("OpenTicket", (root[Annotated[reduce(or_, models), Field(discriminator="request_type")]],), {})


def _of_type(request_type: RequestType, payload: Any, says: str) -> Any:
    kind: Any = Literal[request_type.value]
    name = f"{request_type.value.title().replace('_', '')}Ticket"
    return create_model(name, __base__=TicketRequest, __doc__=says.strip(), request_type=kind, payload=payload)


EXAMPLES = [
    OpenApiExample(
        one.request_type.value,
        value={"request_type": one.request_type.value, "payload": dict(one.example), "reason": "Asked for by phone"},
        request_only=True,
        description=one.summary,
    )
    for one in PROCESSORS.values()
]


_TICKET = {
    "request_id": "5f0c1a2e-7d0b-4f3a-9c1e-2b8d6e4f1a37",
    "request_type": "EXECUTION_ENABLE",
    "status": "OPEN",
    "payload": {"tenant_id": "t_demo"},
    "reason": "Asked for by phone",
    "requested_by": "key:dpp_1a2B3c4D",
    "needs_approval": False,
    "approved_by": None,
    "approved_at": None,
    "attempts": 0,
    "created_at": "2026-03-01T12:00:00Z",
    "in_progress_at": None,
    "last_processed_at": None,
    "results": [],
}
_DONE = _TICKET | {
    "status": "DONE",
    "attempts": 1,
    "in_progress_at": "2026-03-01T12:00:41Z",
    "last_processed_at": "2026-03-01T12:00:41Z",
    "results": [
        {
            "request_id": _TICKET["request_id"],
            "processor_id": "OPS_CYCLE",
            "status": "DONE",
            "processed_at": "2026-03-01T21:00:41+09:00",
            "message": "Submits of t_demo are on.",
            "detail": {},
        }
    ],
}
OPENED_EXAMPLES = [answer_example("Opened", _TICKET, 201), answer_example("Opened before", _TICKET, 200)]
ENDED_EXAMPLES = [answer_example("Ended", _DONE)]
PAGE_EXAMPLES = [answer_example("The last page", {"tickets": [_DONE], "next_cursor": None})]
REPORT_EXAMPLES = [
    answer_example(
        "Nothing was stale",
        {
            "schema": "TICKET_REAPER_REPORT_V1",
            "asof": "2026-03-01T21:00:00+09:00",
            "decision": "NONE",
            "threshold_seconds": 86_400,
            "stale_count": 0,
            "cleaned_count": 0,
            "cleaned_items": [],
            "evidence_refs": [],
        },
    )
]


class ReaperRequest(BaseModel):
    """Both may be left out, and so may the body."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    threshold_seconds: Annotated[
        StrictInt | None,
        Field(ge=1, le=THRESHOLD_MAX, description="Default: DPP_TICKET_STALE_SECONDS.", examples=[86_400]),
    ] = None
    max_clean: Annotated[
        StrictInt | None,
        Field(ge=1, le=CLEAN_MAX, description="Default: DPP_TICKET_REAPER_MAX_CLEAN.", examples=[50]),
    ] = None


REAPER_EXAMPLES = [
    OpenApiExample("Ten at most", value={"threshold_seconds": 86_400, "max_clean": 10}, request_only=True),
    *REPORT_EXAMPLES,
]


class TicketResultAnswer(BaseModel):
    request_id: str
    processor_id: str = Field(examples=["OPS_CYCLE", "TICKET_REAPER"])
    status: str = Field(examples=["DONE"])
    processed_at: datetime
    message: str
    detail: dict[str, Any] = Field(
        description="What was done; of a ticket that ended undecided, its `effect`: STANDS, ABSENT or UNKNOWN."
    )


class TicketAnswer(BaseModel):
    model_config = ConfigDict(frozen=True)

    request_id: str
    request_type: RequestType
    status: TicketStatus
    payload: dict[str, Any]
    reason: str
    requested_by: str
    needs_approval: bool
    approved_by: str | None
    approved_at: datetime | None
    attempts: int
    created_at: datetime
    in_progress_at: datetime | None
    last_processed_at: datetime | None
    results: list[TicketResultAnswer] = Field(description="One, once it has ended.")

    @classmethod
    def of(cls, ticket: Ticket) -> "TicketAnswer":
        return cls(
            request_id=str(ticket.pk),
            request_type=RequestType(ticket.request_type),
            status=TicketStatus(ticket.status),
            payload=ticket.payload,
            reason=ticket.reason,
            requested_by=ticket.requested_by,
            needs_approval=ticket.needs_approval,
            approved_by=ticket.approved_by,
            approved_at=ticket.approved_at,
            attempts=ticket.attempts,
            created_at=ticket.created_at,
            in_progress_at=ticket.in_progress_at,
            last_processed_at=ticket.last_processed_at,
            results=_results(ticket),
        )


def _results(ticket: Ticket) -> list[TicketResultAnswer]:
    result = getattr(ticket, "result", None)
    if result is None:
        return []
    return [
        TicketResultAnswer(
            request_id=str(ticket.pk),
            processor_id=result.processor_id,
            status=result.status,
            processed_at=reports.report_time(result.processed_at),
            message=result.message,
            detail=result.detail,
        )
    ]


class Tickets(BaseModel):
    model_config = ConfigDict(frozen=True)

    tickets: list[TicketAnswer]
    next_cursor: str | None = Field(description="Hand it back as `cursor` for older tickets; null at the end.")
