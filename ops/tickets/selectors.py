"""Which tickets wait for whom."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce, Now
from django.db.models.lookups import LessThan

from ops.tickets.models import Ticket
from ops.tickets.states import RequestType, TicketStatus

RETRY_AFTER_SECONDS: Final = 300
ATTEMPTS_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class TicketPage:
    tickets: list[Ticket]
    next: tuple[datetime, uuid.UUID] | None


def due_tickets() -> QuerySet[Ticket]:
    """Oldest first: open ones that are harmless or approved, and started ones nobody has touched for five minutes.

    A stale one is the reaper's, also where the reaper fails or has reached its bound: nobody expects it any more.
    """
    may_start = Q(status=TicketStatus.OPEN) & (Q(needs_approval=False) | Q(approved_by__isnull=False))
    left = Q(status=TicketStatus.IN_PROGRESS, attempts__lt=ATTEMPTS_MAX) & _untouched_for(RETRY_AFTER_SECONDS)
    stale = stale_by_setting().order_by().values("pk")
    return Ticket.objects.filter(may_start | left & ~Q(pk__in=stale)).order_by("created_at", "request_id")


def stale_tickets(*, threshold_seconds: int, excluded_types: Collection[str]) -> QuerySet[Ticket]:
    """IN_PROGRESS and not processed for longer than the threshold. Those that wait longest first."""
    return (
        Ticket.objects.filter(_untouched_for(threshold_seconds), status=TicketStatus.IN_PROGRESS)
        .exclude(request_type__in=list(excluded_types))
        .order_by(_touched_at(), "request_id")
    )


def unfinished_tickets() -> QuerySet[Ticket]:
    return Ticket.objects.filter(status__in=[TicketStatus.OPEN, TicketStatus.IN_PROGRESS])


def stale_by_setting() -> QuerySet[Ticket]:
    """What the next pass of the reaper finds."""
    return stale_tickets(
        threshold_seconds=settings.TICKET_STALE_SECONDS, excluded_types=settings.TICKET_REAPER_EXCLUDED_TYPES
    )


def waiting_for_approval() -> QuerySet[Ticket]:
    return Ticket.objects.filter(status=TicketStatus.OPEN, needs_approval=True, approved_by__isnull=True)


def page_of_tickets(
    *,
    status: TicketStatus | None = None,
    request_type: RequestType | None = None,
    after: tuple[datetime, uuid.UUID] | None = None,
    limit: int,
) -> TicketPage:
    """Newest first; one more is read than shown, to know whether there is a next page."""
    rows = Ticket.objects.select_related("result")
    if status is not None:
        rows = rows.filter(status=status)
    if request_type is not None:
        rows = rows.filter(request_type=request_type)
    if after is not None:
        at, request_id = after
        rows = rows.filter(Q(created_at__lt=at) | Q(created_at=at, request_id__lt=request_id))
    found = list(rows.order_by("-created_at", "-request_id")[: limit + 1])
    shown = found[:limit]
    return TicketPage(shown, (shown[-1].created_at, shown[-1].request_id) if len(found) > limit else None)


def _touched_at() -> Coalesce:
    """A ticket that was never processed counts from when it went IN_PROGRESS."""
    return Coalesce("last_processed_at", "in_progress_at")


def _untouched_for(seconds: int) -> Q:
    return Q(LessThan(_touched_at(), Now() - timedelta(seconds=seconds)))
