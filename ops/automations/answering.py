"""A person has answered: the answer becomes an event whose task resumes the one that was answered.

An answer can be here before the question's mark. At Slack the thread is not known until then, so that an answer is
asked for again; a webhook's is awaited before the question goes out.
"""

import enum
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from dpp_project.refusals import Refusal
from ops.automations.emitting import Emission, emit_event
from ops.automations.models import AutomationEvent, AutomationMessage, AutomationSource, AwaitedAnswer
from ops.automations.states import MessageChannel, MessageStatus

REPEATED_WITHIN: Final = timedelta(minutes=5)
"""Slack repeats at once, after a minute and after five. What is looked up later finds no answer any more."""
CLOCKS_DIFFER: Final = timedelta(minutes=2)
_SECONDS_DIGITS: Final = 10


class AnswerOutcome(enum.Enum):
    TAKEN = "taken"
    DUPLICATE = "duplicate"
    NOT_AWAITED = "not awaited"
    UNDER_WAY = "under way"
    """It may answer a question that is not known to be there yet: to be repeated."""


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
    # Looked at first: a question that is marked between the two looks is found by the second.
    under_way = channel is MessageChannel.SLACK and _is_question_under_way(target, thread)
    with transaction.atomic():
        awaited = (
            AwaitedAnswer.objects.select_for_update(of=("self",))
            .filter(channel=channel, target=target, thread=thread)
            .select_related("task")
            .first()
        )
        if awaited is None:
            return Answered(AnswerOutcome.UNDER_WAY if under_way else AnswerOutcome.NOT_AWAITED)
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


def _is_question_under_way(target: str, thread: str) -> bool:
    """Whether the thread may be a question's whose post was not answered yet, or whose sender died before its mark.

    A thread is called by the second in which it began, and a question that begins one was written before.
    """
    seconds = thread.partition(".")[0]
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) <= _SECONDS_DIGITS):
        return False
    begun = datetime.fromtimestamp(int(seconds), tz=UTC)
    asked = AutomationMessage.objects.filter(
        Q(thread=thread) | Q(thread="", created_at__lte=begun + CLOCKS_DIFFER),
        channel=MessageChannel.SLACK,
        target=target,
        awaits_answer=True,
        status=MessageStatus.PENDING,
    )
    soon = Q(unclear=True, next_attempt_at__lte=Now() + REPEATED_WITHIN)
    return asked.filter(Q(lease_until__isnull=False) | soon).exists()
