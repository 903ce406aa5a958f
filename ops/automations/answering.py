"""A person has answered: the answer becomes an event whose task resumes the one that was answered."""

import enum
import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from dpp_project.refusals import Refusal
from ops.automations.emitting import Emission, emit_event
from ops.automations.models import AutomationEvent, AutomationSource, AwaitedAnswer
from ops.automations.states import MessageChannel


class AnswerOutcome(enum.Enum):
    TAKEN = "taken"
    DUPLICATE = "duplicate"
    NOT_AWAITED = "not awaited"


@dataclass(frozen=True, slots=True)
class Answered:
    outcome: AnswerOutcome
    event_pk: uuid.UUID | None = None


def record_message_answer(
    *,
    source: AutomationSource,
    event_id: str,
    channel: MessageChannel,
    target: str,
    thread: str,
    text: str,
    actor: str,
    occurred_at: datetime,
) -> Answered | Refusal:
    """Key: (source, event_id). Event, seen row and the end of waiting are one transaction.

    Of several answers in a thread the first is taken; the others find that none is awaited. The event holds what the
    task that is resumed was made of, and the answer beside it, so that it needs nothing that may be cleared meanwhile.
    """
    with transaction.atomic():
        awaited = (
            AwaitedAnswer.objects.select_for_update(of=("self",))
            .filter(channel=channel, target=target, thread=thread)
            .select_related("task")
            .first()
        )
        if awaited is None:
            return Answered(AnswerOutcome.NOT_AWAITED)
        former = awaited.task
        event = AutomationEvent.objects.filter(pk=former.event_id).first()
        made_of = {} if event is None else event.payload["event"] if event.resumes_id is not None else event.payload
        answer = {"text": text, "actor": actor, "channel": channel.value, "target": target, "thread": thread}
        emitted = emit_event(
            source=source,
            event_id=event_id,
            payload={"event": made_of, "answer": answer},
            occurred_at=occurred_at,
            thread=former.thread,
            actor=actor,
            resumes=former.pk,
        )
        if isinstance(emitted, Refusal):
            return emitted
        if emitted.emission is Emission.DUPLICATE:
            return Answered(AnswerOutcome.DUPLICATE)
        awaited.delete()
    return Answered(AnswerOutcome.TAKEN, emitted.event_pk)
