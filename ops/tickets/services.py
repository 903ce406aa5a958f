"""What operators do with tickets: open, approve, decline. The cycle does the rest."""

import uuid
from dataclasses import dataclass
from typing import Any

import structlog
from django.db import transaction
from pydantic import ValidationError

from dpp_project import clock
from dpp_project.actors import person_of
from dpp_project.audit import trail
from dpp_project.audit.models import AuditEntry
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from ops.tickets import transitions
from ops.tickets.models import TEXT_LENGTH_MAX, Ticket
from ops.tickets.processors import processor_of
from ops.tickets.states import RequestType, TicketStatus
from ops.tickets.transitions import EdgeOutcome
from tenants.models import ApiKey
from tenants.services import KEY_ISSUED, KEY_ROTATED, find_key, text_fault

log = structlog.get_logger("dpp.ops")


@dataclass(frozen=True, slots=True)
class Opened:
    ticket: Ticket
    is_new: bool


def open_ticket(
    *,
    request_type: RequestType,
    payload: dict[str, Any],
    reason: str,
    requested_by: str,
    idempotency_key: str | None = None,
) -> Opened | Refusal:
    """A ticket for the next cycle. Key: the idempotency key, where one is given; the same request under it is found."""
    fault = ticket_fault(request_type=request_type, payload=payload, reason=reason)
    if fault is not None:
        return fault
    checked = checked_payload(request_type, payload)
    with transaction.atomic():
        ticket, is_new = transitions.open_ticket(
            request_type=request_type,
            payload=checked,
            reason=reason,
            requested_by=requested_by,
            idempotency_key=idempotency_key,
            needs_approval=needs_approval(request_type, checked),
        )
        if is_new:
            after = {"request_type": request_type, "payload": checked, "needs_approval": ticket.needs_approval}
            _record_ticket_act("ticket opened", ticket, requested_by, after=after, reason=reason)
    if not is_new and (ticket.request_type, ticket.payload, ticket.reason) != (request_type, checked, reason):
        return Refusal(ReasonCode.IDEMPOTENCY_CONFLICT, "it stands for another ticket", "idempotency_key")
    if is_new:
        log.info("ticket opened", request_id=str(ticket.pk), request_type=request_type.value, actor=requested_by)
    return Opened(ticket, is_new)


def ticket_fault(*, request_type: RequestType, payload: object, reason: str) -> Refusal | None:
    """What is wrong with a ticket that is asked for, if anything; forms ask before they open one."""
    if len(reason) > TEXT_LENGTH_MAX or not (reason == "" or reason.isprintable()):
        return invalid("reason", f"must be at most {TEXT_LENGTH_MAX} printable characters")
    if not isinstance(payload, dict):
        return invalid("payload", "must be an object")
    try:
        checked_payload(request_type, payload)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(["payload", *(str(part) for part in first["loc"])])
        return invalid(place, first["msg"].removeprefix("Value error, "))
    return None


def checked_payload(request_type: RequestType, payload: object) -> dict[str, Any]:
    """As it is stored, defaults filled in. Raises ValidationError where `ticket_fault` finds one."""
    return processor_of(request_type).payload.model_validate(payload).model_dump(mode="json")


def needs_approval(request_type: RequestType, payload: object) -> bool:
    """Whether a valid ticket like this one waits for a second operator."""
    processor = processor_of(request_type)
    return processor.needs_approval(processor.payload.model_validate(payload))


def approve_ticket(*, request_id: uuid.UUID, by: str) -> Ticket | Refusal:
    """The second operator's yes to a dangerous ticket. Of two at once, one is the approver."""
    ticket = Ticket.objects.filter(pk=request_id).first()
    if ticket is None:
        return Refusal(ReasonCode.NOT_FOUND, "there is no such ticket", "request_id")
    if not ticket.needs_approval:
        return Refusal(ReasonCode.CONFLICT, "this ticket runs without an approval", "request_id")
    if person_of(by) in _persons_behind(ticket.requested_by):
        detail = "the person who asked for it cannot approve it; ask another operator"
        return Refusal(ReasonCode.CONFLICT, detail, "by")
    with transaction.atomic():
        if transitions.mark_ticket_approved(request_id=request_id, version=ticket.version, by=by) is EdgeOutcome.LOST:
            return _not_open()
        _record_ticket_act("ticket approved", ticket, by, before={"approved_by": None}, after={"approved_by": by})
    log.info("ticket approved", request_id=str(request_id), actor=by)
    return Ticket.objects.get(pk=request_id)


def _persons_behind(actor: str) -> set[str]:
    """A key is a person's whose console name is its label, and of each who issued or rotated it and saw its secret:
    none of them may approve what was asked for with it.
    """
    key = find_key(actor.removeprefix("key:")) if actor.startswith("key:") else None
    if not isinstance(key, ApiKey):
        return {person_of(actor)}
    issued = AuditEntry.objects.filter(act=KEY_ISSUED, subject=f"key {key}")
    rotated = AuditEntry.objects.filter(act=KEY_ROTATED, after__replaced_by=str(key), tenant_id=key.tenant_id)
    seen_by = (*issued.values_list("actor", flat=True), *rotated.values_list("actor", flat=True))
    return {person_of(one) for one in (actor, *([key.label] if key.label else []), *seen_by)}


def decline_ticket(*, request_id: uuid.UUID, by: str, reason: str) -> Ticket | Refusal:
    """End a ticket that nobody has begun, undone."""
    if (fault := text_fault("reason", reason)) is not None:
        return invalid(fault.field, fault.detail)
    ticket = Ticket.objects.filter(pk=request_id).first()
    if ticket is None:
        return Refusal(ReasonCode.NOT_FOUND, "there is no such ticket", "request_id")
    message = f"declined: {reason.strip()}"
    with transaction.atomic():
        declined = transitions.mark_ticket_declined(
            request_id=request_id, version=ticket.version, by=by, message=message, at=clock.now()
        )
        if declined is EdgeOutcome.LOST:
            return _not_open()
        before, after = {"status": TicketStatus.OPEN}, {"status": TicketStatus.FAILED}
        _record_ticket_act("ticket declined", ticket, by, before=before, after=after, reason=reason.strip())
    log.info("ticket declined", request_id=str(request_id), actor=by)
    return Ticket.objects.get(pk=request_id)


def _record_ticket_act(
    act: str,
    ticket: Ticket,
    actor: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any],
    reason: str = "",
) -> None:
    """Of the platform's own affairs; what the ticket does to a tenant is entered when it is done."""
    trail.record_in_trail(act, actor=actor, subject=f"ticket {ticket.pk}", before=before, after=after, reason=reason)


def _not_open() -> Refusal:
    return Refusal(
        ReasonCode.CONFLICT, f"it is not {TicketStatus.OPEN}, or another operator was faster; look again", "request_id"
    )
