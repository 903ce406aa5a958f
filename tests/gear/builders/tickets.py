"""Tickets for tests, brought to each state by the edges that do it in earnest."""

import json
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
from django.db import connection
from django.db.models.functions import Now

from dpp_project import clock
from ops.tickets import cycle, services, transitions
from ops.tickets.models import OpsRunReceipt, Ticket, TicketResult
from ops.tickets.services import Opened
from ops.tickets.states import RequestType, TicketStatus
from ops.tickets.transitions import EdgeOutcome
from reaper.models import DeadLetter
from runs.models import Run

SCHEMAS = Path(transitions.__file__).parent / "schemas"
DAY_SECONDS = 86_400


def validator(name: str) -> Any:
    return jsonschema_rs.validator_for(json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8")))


def opened(
    request_type: RequestType = RequestType.EXECUTION_ENABLE,
    payload: dict[str, Any] | None = None,
    *,
    requested_by: str = "operator:ada",
) -> Ticket:
    answer = services.open_ticket(
        request_type=request_type,
        payload={"tenant_id": "t_somebody"} if payload is None else payload,
        reason="a test needs it",
        requested_by=requested_by,
    )
    assert isinstance(answer, Opened), answer
    return answer.ticket


def taken(**values: Any) -> Ticket:
    """IN_PROGRESS, version 1, never processed."""
    ticket = opened(**values)
    assert transitions.take_ticket(request_id=ticket.pk, version=0) is EdgeOutcome.WON
    return row(ticket.pk)


def stale(*, seconds: int = DAY_SECONDS + 60, processed: bool = True, **values: Any) -> Ticket:
    """IN_PROGRESS for so long; `processed` says whether it was put off once before."""
    ticket = taken(**values)
    if processed:
        assert transitions.put_off_ticket(request_id=ticket.pk, version=1) is EdgeOutcome.WON
    return aged(row(ticket.pk), seconds=seconds)


def aged(ticket: Ticket, *, seconds: int) -> Ticket:
    """Its times moved into the past, by the database's clock; the guard of steps looks away meanwhile."""
    past = Now() - timedelta(seconds=seconds)
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
    try:
        Ticket.objects.filter(pk=ticket.pk).update(in_progress_at=past)
        Ticket.objects.filter(pk=ticket.pk, last_processed_at__isnull=False).update(last_processed_at=past)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = origin")
    return row(ticket.pk)


def letter_of(run: Run) -> DeadLetter:
    return DeadLetter.objects.create(
        message_id=f"message-{run.run_id}", outcome="KEPT", run_id=run.run_id, size_bytes=1, sha256="0" * 64, receives=3
    )


def row(request_id: uuid.UUID) -> Ticket:
    return Ticket.objects.get(pk=request_id)


def result(ticket: Ticket) -> TicketResult:
    return TicketResult.objects.get(ticket=ticket)


def finish(ticket: Ticket, status: TicketStatus = TicketStatus.DONE) -> EdgeOutcome:
    return transitions.finish_ticket(
        request_id=ticket.pk,
        version=ticket.version,
        status=status,
        processor_id=cycle.PROCESSOR_ID,
        at=clock.now(),
        message="it worked",
    )


def clean(ticket: Ticket) -> EdgeOutcome:
    return transitions.clean_ticket(
        request_id=ticket.pk, version=ticket.version, threshold_seconds=DAY_SECONDS, at=clock.now(), detail={}
    )


def run_cycle(*, limit: int = 20) -> OpsRunReceipt:
    receipt = cycle.run_cycle(now=clock.now(), limit=limit)
    validator("ops_run_receipt_v1").validate(receipt.document)
    if receipt.document["ticket_reaper"] is not None:
        validator("ticket_reaper_report_v1").validate(receipt.document["ticket_reaper"])
    return receipt
