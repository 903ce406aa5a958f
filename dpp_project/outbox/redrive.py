"""A dead letter of an event sent again, because a person says so: the fault it died of has been mended.

An event that the outbox knows is handled anew: its ledger row is reset and the publisher sends it, in the transaction
that enters the act. Of a message that no event stands behind, the bytes go to the queue as they came; a death before
that is entered leaves a letter that looks unsent, and a second message is one more letter at worst.
"""

from uuid import UUID

import structlog
from django.db import transaction

from dpp_project import clock
from dpp_project.audit import trail
from dpp_project.aws.sqs_sender import QueueMessage, SendFailed
from dpp_project.outbox import ledger, queue, resending, wakeup
from dpp_project.outbox.models import EventDeadLetter, OutboxMessage, ProcessedMessage
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal

log = structlog.get_logger("dpp.events")


def redrive(letter: EventDeadLetter, *, actor: str) -> Refusal | None:
    refusal = may_redrive(letter)
    if refusal is not None:
        return refusal
    if not _is_known(letter.outbox_id):
        try:
            queue.event_sender().send(_as_it_came(letter))
        except SendFailed as error:
            return Refusal(ReasonCode.SERVICE_UNAVAILABLE, f"the queue did not take it ({error}); try again", "letter")
    with transaction.atomic():
        if letter.outbox_id is not None and _is_known(letter.outbox_id):
            refusal = _asked_again(letter, letter.outbox_id)
            if refusal is not None:
                return refusal
            if not resending.handle_anew(letter.outbox_id):
                return Refusal(ReasonCode.CONFLICT, "its event is being handled just now", "letter")
            transaction.on_commit(wakeup.ring_publisher)
        EventDeadLetter.objects.filter(pk=letter.pk).update(redriven_at=clock.now(), redriven_by=actor)
        trail.record_in_trail(
            "event's dead letter sent again",
            actor=actor,
            subject=f"event's dead letter {letter.pk}",
            tenant_id=letter.tenant_id,
            before={"redriven_by": letter.redriven_by},
            after={"redriven_by": actor, "outbox_id": letter.outbox_id},
        )
    log.info("event's dead letter redriven", letter=letter.pk, outbox_id=str(letter.outbox_id or ""), actor=actor)
    return None


def may_redrive(letter: EventDeadLetter) -> Refusal | None:
    """An event that goes on, or was handled, needs no sending; one whose event is unknown may have come back since."""
    event = None if letter.outbox_id is None else OutboxMessage.objects.filter(pk=letter.outbox_id).first()
    if event is None:
        if queue.URL is None:
            return Refusal(ReasonCode.SERVICE_UNAVAILABLE, "DPP_EVENTS_QUEUE_URL is not set", "letter")
        return None
    known = ProcessedMessage.objects.filter(pk=event.pk).first()
    # What the queue refused may have been handled all the same: a send that failed had arrived, or one before it.
    state = event.status if known is None or (event.status == "DEAD" and known.status != "DONE") else known.status
    if state != "DEAD":
        return Refusal(ReasonCode.CONFLICT, f"its event is {state}, not DEAD", "letter")
    return None


def _asked_again(letter: EventDeadLetter, outbox_id: UUID) -> Refusal | None:
    """With the ledger's row locked: until the caller's commit no consumer can handle the event."""
    ledger.ensure_row_exists(outbox_id)
    ProcessedMessage.objects.select_for_update().get(pk=outbox_id)
    return may_redrive(letter)


def _is_known(outbox_id: UUID | None) -> bool:
    return outbox_id is not None and OutboxMessage.objects.filter(pk=outbox_id).exists()


def _as_it_came(letter: EventDeadLetter) -> QueueMessage:
    return QueueMessage(
        bytes(letter.body).decode("utf-8", "surrogatepass"), group=letter.tenant_id, attributes=letter.attributes
    )
