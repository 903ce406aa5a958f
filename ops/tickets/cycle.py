"""The ops cycle, step by step (TKT-07). Each run leaves a receipt, OPS_RUN_RECEIPT_V1.

    0      is the emergency stop on? Then nothing further runs
    0.25   the ticket reaper
    0.5    tickets are selected, oldest first
    1      tickets are processed; the stop is looked at again before each

A step that fails is named in the receipt and does not keep the next from running. Dying anywhere leaves no receipt and
a job report without an end; a ticket that was at work is resumed after five minutes (selectors.due_tickets).
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import connection

from dpp_project import clock, origins
from dpp_project.jobs import deadline
from dpp_project.jobs.registry import PassReport
from ops.tickets import emergency, metrics, processors, reaper, reports, selectors, transitions
from ops.tickets.models import OpsRunReceipt, Ticket
from ops.tickets.processors import Later, Processed, TicketDone, TicketRefused
from ops.tickets.selectors import ATTEMPTS_MAX
from ops.tickets.states import TicketStatus
from ops.tickets.transitions import EdgeOutcome

log = structlog.get_logger("dpp.ops")

SCHEMA: Final = "OPS_RUN_RECEIPT_V1"
PROCESSOR_ID: Final = "OPS_CYCLE"
STOPPED: Final = "STOPPED"
SHOWN_MAX: Final = 20


def run_ticket_cycle(*, now: datetime, limit: int) -> PassReport:
    receipt = run_cycle(now=now, limit=limit)
    document = receipt.document
    reaped = document["ticket_reaper"] or {}
    processed = document["processed"]
    return PassReport(
        seen=len(document["selected"]) + reaped.get("stale_count", 0),
        changed=sum(one["status"] in {TicketStatus.DONE, TicketStatus.FAILED} for one in processed)
        + reaped.get("cleaned_count", 0),
        errors=sum(step["status"] == "FAILED" for step in document["steps"]),
        detail={"receipt": receipt.pk, "decision": receipt.decision, "steps": document["steps"]},
    )


def preview_ticket_cycle(*, now: datetime, limit: int) -> PassReport:
    """What a cycle would take up now; with the emergency stop on, nothing."""
    del now
    if emergency.is_on():
        return PassReport(detail={"decision": STOPPED})
    stale, due = selectors.stale_by_setting().count(), selectors.due_tickets()[:limit].count()
    return PassReport(seen=stale + due, changed=min(stale, settings.TICKET_REAPER_MAX_CLEAN) + due)


def run_cycle(*, now: datetime, limit: int) -> OpsRunReceipt:
    cycle = _Cycle(limit)
    cycle.run()
    stopped = any(step["status"] == STOPPED for step in cycle.steps)
    decision = OpsRunReceipt.Decision.STOPPED if stopped else OpsRunReceipt.Decision.RAN
    document = {
        "schema": SCHEMA,
        "asof": reports.report_time_text(now),
        "decision": decision.value,
        "emergency_stop": cycle.emergency_stop,
        "steps": cycle.steps,
        "ticket_reaper": cycle.ticket_reaper,
        "selected": [str(ticket.pk) for ticket in cycle.selected],
        "processed": cycle.processed,
    }
    return OpsRunReceipt.objects.create(asof=now, decision=decision, document=document)


class _Cycle:
    """One run. Its methods stand in the order of the steps."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.emergency_stop: dict[str, Any] = {"on": False, "actor": None, "reason": None, "at": None}
        self.steps: list[dict[str, str]] = []
        self.ticket_reaper: dict[str, Any] | None = None
        self.selected: list[Ticket] = []
        self.processed: list[dict[str, str]] = []

    def run(self) -> None:
        for number, name, step in (
            ("0", "emergency_stop_check", self._check_emergency_stop),
            ("0.25", "ticket_reaper", self._reap),
            ("0.5", "ticket_selection", self._select),
            ("1", "ticket_processing", self._process),
        ):
            self._step(number, name, step)

    def _step(self, number: str, name: str, step: Callable[[], str]) -> None:
        """Without an answer about the stop nothing runs either: it may be on."""
        if any(
            done["status"] == STOPPED or (done["step"] == "0" and done["status"] == "FAILED") for done in self.steps
        ):
            self.steps.append({"step": number, "name": name, "status": "SKIPPED", "note": ""})
            return
        try:
            note = step()
        except Exception as error:  # one step's failure is its own
            log.warning("step of the ops cycle failed", step=number, name=name, exc_info=error)
            self.steps.append({"step": number, "name": name, "status": "FAILED", "note": type(error).__name__})
            return
        status = STOPPED if note == STOPPED else "FAILED" if note else "OK"
        self.steps.append({"step": number, "name": name, "status": status, "note": "" if note == STOPPED else note})

    def _check_emergency_stop(self) -> str:
        latest = emergency.emergency_state()
        if latest is not None:
            self.emergency_stop = {
                "on": latest.is_on,
                "actor": latest.actor,
                "reason": latest.reason,
                "at": reports.report_time_text(latest.at),
            }
        return STOPPED if self.emergency_stop["on"] else ""

    def _reap(self) -> str:
        ran = reaper.reap_tickets()
        self.ticket_reaper = ran.report.document()
        if ran.skipped:
            return _skipped(ran.skipped)
        return "" if ran.published else "the report is not in the storage yet"

    def _select(self) -> str:
        self.selected = list(selectors.due_tickets()[: self._limit])
        return ""

    def _process(self) -> str:
        skipped = []
        for ticket in self.selected:
            if self._check_emergency_stop() == STOPPED:
                return STOPPED
            if self.processed and deadline.is_over():
                break  # the rest is selected again by the next cycle
            try:
                said = work_on(ticket)
            except Exception as error:  # what goes wrong with one ticket keeps no other from being worked on
                if not connection.is_usable():
                    raise
                log.warning("ticket skipped", request_id=str(ticket.pk), exc_info=error)
                skipped.append(str(ticket.pk))
                continue
            if said is not None:
                self.processed.append(said)
        return _skipped(skipped) if skipped else ""


def _skipped(request_ids: Sequence[str]) -> str:
    """For the receipt: it failed for these, and the next cycle tries them again."""
    return f"{len(request_ids)} skipped: {', '.join(request_ids[:SHOWN_MAX])}"


def work_on(ticket: Ticket) -> dict[str, str] | None:
    """Take a ticket, act, and store the result. None: another process has it."""
    edge = transitions.take_ticket if ticket.status == TicketStatus.OPEN else transitions.resume_ticket
    if edge(request_id=ticket.pk, version=ticket.version) is EdgeOutcome.LOST:
        return None
    answer = _ticket_processor_answer(ticket)
    status, message = _verdict(answer, attempt=ticket.attempts + 1)
    if status is TicketStatus.IN_PROGRESS:
        written = transitions.put_off_ticket(request_id=ticket.pk, version=ticket.version + 1)
    else:
        written = transitions.finish_ticket(
            request_id=ticket.pk,
            version=ticket.version + 1,
            status=status,
            processor_id=PROCESSOR_ID,
            at=clock.now(),
            message=message,
            detail=_detail(ticket, answer),
        )
    if written is EdgeOutcome.LOST:
        return _receipt_of_lost_ticket(ticket, message)
    metrics.PROCESSED.labels(ticket.request_type, status.value).inc()
    log.info("ticket processed", request_id=str(ticket.pk), request_type=ticket.request_type, status=status.value)
    return _ticket_receipt(ticket, status, message)


def _ticket_processor_answer(ticket: Ticket) -> Processed:
    asked = f"{ticket.pk}, asked for by {ticket.requested_by}"
    people = asked + (f", approved by {ticket.approved_by}" if ticket.approved_by else "")
    try:
        with origins.use_origin(origins.TICKET, people):
            return processors.process_ticket(ticket)
    except Exception as error:  # a ticket's failure is its own, and may be a service's that is away
        log.warning("ticket not processed", request_id=str(ticket.pk), exc_info=error)
        return Later(f"it failed with {type(error).__name__}")


def _verdict(answer: Processed, *, attempt: int) -> tuple[TicketStatus, str]:
    match answer:
        case TicketDone(message):
            return TicketStatus.DONE, message
        case TicketRefused(message):
            return TicketStatus.FAILED, message
        case Later(message) if attempt >= ATTEMPTS_MAX:
            return TicketStatus.FAILED, f"given up after {attempt} tries: {message}"
        case Later(message):
            return TicketStatus.IN_PROGRESS, message


def _detail(ticket: Ticket, answer: Processed) -> dict[str, Any]:
    match answer:
        case TicketDone(_, detail):
            return dict(detail)
        case TicketRefused():
            return {}
        case Later():
            return processors.effect_of(ticket)


def _receipt_of_lost_ticket(ticket: Ticket, message: str) -> dict[str, str]:
    """Reaped, or resumed by another. What was done stands all the same, so the receipt says it."""
    metrics.PROCESSED.labels(ticket.request_type, EdgeOutcome.LOST.name).inc()
    log.warning("ticket was taken from its processor", request_id=str(ticket.pk), answer=message)
    status = TicketStatus(Ticket.objects.get(pk=ticket.pk).status)
    return _ticket_receipt(ticket, status, f"taken over by another meanwhile; this processor says: {message}")


def _ticket_receipt(ticket: Ticket, status: TicketStatus, message: str) -> dict[str, str]:
    return {
        "request_id": str(ticket.pk),
        "request_type": ticket.request_type,
        "status": status.value,
        "message": message,
    }
