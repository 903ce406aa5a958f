"""The only writer of tickets: one function per edge, each a compare-and-set by version.

    open                  -> OPEN
    mark_ticket_approved  OPEN, by another operator
    mark_ticket_declined  OPEN -> FAILED
    take_ticket           OPEN -> IN_PROGRESS
    resume_ticket         IN_PROGRESS, left by a processor that died or put it off
    put_off_ticket        IN_PROGRESS, to be tried again
    finish_ticket         IN_PROGRESS -> DONE or FAILED, with its result in the same transaction
    clean_ticket          IN_PROGRESS -> FAILED, the same, by the ticket reaper

The loser has changed nothing. Ages go by the database's clock. The trigger `tickets_step_is_legal` holds the same
edges against every other writer.
"""

import enum
import uuid
from datetime import datetime
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from ops.tickets.models import Ticket, TicketResult
from ops.tickets.states import RequestType, TicketStatus

REAPER_ID: Final = "TICKET_REAPER"
OPERATOR_ID: Final = "OPERATOR"
AUTO_CLEANUP: Final = "AUTO_CLEANUP_STALE_IN_PROGRESS"


class EdgeOutcome(enum.Enum):
    WON = "won"
    LOST = "lost"


def open_ticket(
    *,
    request_type: RequestType,
    payload: dict[str, Any],
    reason: str,
    requested_by: str,
    idempotency_key: str | None,
    needs_approval: bool,
) -> tuple[Ticket, bool]:
    """The ticket, and whether it is new: one that has the key already is answered as it stands."""
    try:
        with transaction.atomic():
            made = Ticket.objects.create(
                request_type=request_type,
                payload=payload,
                reason=reason,
                requested_by=requested_by,
                idempotency_key=idempotency_key,
                needs_approval=needs_approval,
            )
    except IntegrityError:
        found = None if idempotency_key is None else Ticket.objects.filter(idempotency_key=idempotency_key).first()
        if found is None:
            raise
        return found, False
    return Ticket.objects.get(pk=made.pk), True


def mark_ticket_approved(*, request_id: uuid.UUID, version: int, by: str) -> EdgeOutcome:
    return _ticket_edge_outcome(
        _ticket_row_at_version(request_id, version, TicketStatus.OPEN)
        .filter(needs_approval=True, approved_by__isnull=True)
        .exclude(requested_by=by)
        .update(approved_by=by, approved_at=Now(), **_ticket_step_columns())
    )


def mark_ticket_declined(*, request_id: uuid.UUID, version: int, by: str, message: str, at: datetime) -> EdgeOutcome:
    return _end_ticket_with_result(
        _ticket_row_at_version(request_id, version, TicketStatus.OPEN),
        request_id=request_id,
        status=TicketStatus.FAILED,
        processor_id=OPERATOR_ID,
        at=at,
        message=message,
        detail={"declined_by": by},
    )


def take_ticket(*, request_id: uuid.UUID, version: int) -> EdgeOutcome:
    return _ticket_edge_outcome(
        _ticket_row_at_version(request_id, version, TicketStatus.OPEN).update(
            status=TicketStatus.IN_PROGRESS, in_progress_at=Now(), attempts=F("attempts") + 1, **_ticket_step_columns()
        )
    )


def resume_ticket(*, request_id: uuid.UUID, version: int) -> EdgeOutcome:
    """The former processor loses its finish: the version has moved."""
    return _ticket_edge_outcome(
        _ticket_row_at_version(request_id, version, TicketStatus.IN_PROGRESS).update(
            last_processed_at=Now(), attempts=F("attempts") + 1, **_ticket_step_columns()
        )
    )


def put_off_ticket(*, request_id: uuid.UUID, version: int) -> EdgeOutcome:
    return _ticket_edge_outcome(
        _ticket_row_at_version(request_id, version, TicketStatus.IN_PROGRESS).update(
            last_processed_at=Now(), **_ticket_step_columns()
        )
    )


def finish_ticket(
    *,
    request_id: uuid.UUID,
    version: int,
    status: TicketStatus,
    processor_id: str,
    at: datetime,
    message: str,
    detail: dict[str, Any] | None = None,
) -> EdgeOutcome:
    return _end_ticket_with_result(
        _ticket_row_at_version(request_id, version, TicketStatus.IN_PROGRESS),
        request_id=request_id,
        status=status,
        processor_id=processor_id,
        at=at,
        message=message,
        detail=detail or {},
    )


def clean_ticket(
    *, request_id: uuid.UUID, version: int, threshold_seconds: int, at: datetime, detail: dict[str, Any]
) -> EdgeOutcome:
    """A finish, a resume or a put-off in between has moved the version, and then it is not stale."""
    return _end_ticket_with_result(
        _ticket_row_at_version(request_id, version, TicketStatus.IN_PROGRESS),
        request_id=request_id,
        status=TicketStatus.FAILED,
        processor_id=REAPER_ID,
        at=at,
        message=f"{AUTO_CLEANUP}: exceeded {threshold_seconds}s threshold",
        detail=detail,
        touch=False,
    )


def _ticket_row_at_version(request_id: uuid.UUID, version: int, status: TicketStatus) -> QuerySet[Ticket]:
    return Ticket.objects.filter(request_id=request_id, version=version, status=status)


def _ticket_step_columns() -> dict[str, Any]:
    return {"version": F("version") + 1, "updated_at": Now()}


def _end_ticket_with_result(
    row: QuerySet[Ticket],
    *,
    request_id: uuid.UUID,
    status: TicketStatus,
    processor_id: str,
    at: datetime,
    message: str,
    detail: dict[str, Any],
    touch: bool = True,
) -> EdgeOutcome:
    """TicketStatus and result are one: neither is ever seen without the other."""
    processed = {"last_processed_at": Now()} if touch else {}
    with transaction.atomic():
        if not row.update(status=status, **processed, **_ticket_step_columns()):
            return EdgeOutcome.LOST
        TicketResult.objects.create(
            ticket_id=request_id,
            processor_id=processor_id,
            status=status,
            processed_at=at,
            message=message,
            detail=detail,
        )
    return EdgeOutcome.WON


def _ticket_edge_outcome(changed: int) -> EdgeOutcome:
    return EdgeOutcome.WON if changed else EdgeOutcome.LOST
