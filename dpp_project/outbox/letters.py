"""Gives an event up: its message is kept with body, attributes and reason, and its ledger row ends, in one transaction.

A death before the commit leaves the message in the queue, to be given up again; one after it leaves a message that
finds its letter and its ledger row, and is deleted.
"""

from typing import Final
from uuid import UUID

import structlog
from django.db import transaction

from dpp_project.outbox import ledger, messages, metrics
from dpp_project.outbox.messages import LetterReason, Received
from dpp_project.outbox.models import EventDeadLetter, OutboxMessage

log = structlog.get_logger("dpp.events")

DETAIL_MAX: Final = 500


class LeaseLost(Exception):  # noqa: N818  an outcome
    """Another consumer has claimed the event: all is rolled back, and its outcome holds."""


def give_up(message: Received, *, reason: str, detail: str, token: UUID | None) -> None:
    """`token` is the claim of the event's ledger row, where there is one. Raises LeaseLost, and has written nothing."""
    outbox_id = message.outbox_id
    with transaction.atomic():
        event = None if outbox_id is None else OutboxMessage.objects.filter(pk=outbox_id).first()
        is_new = _store(
            EventDeadLetter(
                letter_key=message.message_id,
                outbox_id=outbox_id,
                tenant_id=None if event is None else event.tenant_id,
                event_type=_storable_letter_text(message.attributes.get(messages.EVENT_TYPE, "")),
                reason=reason,
                detail=detail[:DETAIL_MAX],
                body=message.body.encode("utf-8", "surrogatepass"),
                attributes={
                    _storable_letter_text(name): _storable_letter_text(value)
                    for name, value in message.attributes.items()
                },
                receives=message.receives,
                sent_at=message.sent_at,
            )
        )
        if token is not None and outbox_id is not None and not ledger.dead(outbox_id, token=token, error=detail):
            raise LeaseLost
    if is_new:
        _report_dead_letter(reason, outbox_id, detail)


def record_unsendable_event(event: OutboxMessage, *, token: UUID, detail: str) -> None:
    """In the transaction that makes it DEAD. Its claim tells it from an earlier letter of the same event."""
    message = messages.queue_message_of(event)
    _store(
        EventDeadLetter(
            letter_key=f"{event.outbox_id}/{token}",
            outbox_id=event.outbox_id,
            tenant_id=event.tenant_id,
            event_type=event.event_type,
            reason=LetterReason.UNSENDABLE,
            detail=detail[:DETAIL_MAX],
            body=message.body.encode(),
            attributes=dict(message.attributes),
            receives=0,
        )
    )
    _report_dead_letter(LetterReason.UNSENDABLE, event.outbox_id, detail)


def _store(letter: EventDeadLetter) -> bool:
    return EventDeadLetter.objects.bulk_create([letter], ignore_conflicts=True)[0].pk is not None


def _storable_letter_text(text: str) -> str:
    """As Postgres can hold it: neither a NUL nor half of a surrogate pair."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _report_dead_letter(reason: str, outbox_id: UUID | None, detail: str) -> None:
    metrics.LETTERS.labels(reason=reason).inc()
    log.warning("event given up", reason=str(reason), outbox_id=str(outbox_id or ""), detail=detail)
