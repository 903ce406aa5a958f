"""The only writer of a message's status, each step a compare-and-set that names the lease or the version.

    claim_automation_messages  PENDING, due, without a lease -> leased
    mark_message_sent          PENDING -> SENT, with what the target calls it
    give_back                  PENDING, not tried
    put_off_message            PENDING, to be sent later
    doubt_message              PENDING, unclear: it may have arrived, and is looked up before it is sent again
    fail_message               PENDING -> FAILED

A question to a webhook awaits its answer from the first claim on: its thread is known, and who receives it may answer
before its post is. Slack names the thread with its answer to the post, so there it is noted with SENT.

Sending itself happens outside any transaction. A message whose sender died with its lease is taken over
by elapsed time alone, and `claim_automation_messages` marks it unclear: it may have gone out.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from ops.automations.models import AutomationMessage, AutomationTask, AwaitedAnswer, ThreadMapping
from ops.automations.notify.messaging import thread_at_webhook
from ops.automations.states import MessageChannel, MessageStatus, TaskStatus
from ops.automations.transitions import CasOutcome

LEASE_SECONDS: Final = 60.0

# A lease that ran out leaves a message of which nothing is known: the process that held it may have sent it.
_CLAIM: Final = """
UPDATE automation_message SET lease_owner = %s, lease_until = statement_timestamp() + make_interval(secs => %s),
       version = version + 1,
       unclear = unclear OR lease_owner IS NOT NULL
 WHERE message_id IN (
    SELECT message_id FROM automation_message
     WHERE status = 'PENDING' AND next_attempt_at <= statement_timestamp()
       AND (lease_until IS NULL OR lease_until <= statement_timestamp())
       AND channel = ANY(%s) AND channel || ' ' || target <> ALL(%s)
     ORDER BY next_attempt_at, message_id LIMIT %s
       FOR UPDATE SKIP LOCKED)
RETURNING message_id
"""


@dataclass(frozen=True, slots=True)
class MessageClaim:
    """One process's hold on a message: its steps name it, and write nothing when it was taken over."""

    message: AutomationMessage
    owner: uuid.UUID


def claim_automation_messages(
    *, channels: Sequence[str], limit: int, but: Sequence[tuple[str, str]] = ()
) -> list[MessageClaim]:
    """`but`: none for these channels and targets, which have a message under way."""
    owner = uuid.uuid4()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_CLAIM, [owner, LEASE_SECONDS, list(channels), [" ".join(one) for one in but], limit])
        ids = [row[0] for row in cursor.fetchall()]
        found = list(AutomationMessage.objects.filter(pk__in=ids).order_by("next_attempt_at", "message_id"))
        for message in found:
            if _is_webhook_question(message) and not message.attempts and not message.unclear:
                _await_answer(message, thread_at_webhook(message))  # once: sent again, it may have been answered
    return [MessageClaim(message, owner) for message in found]


def mark_message_sent(held: MessageClaim, *, external_id: str, thread: str = "") -> CasOutcome:
    """`thread` is the one that it stands in, or begins. Noted with it: its mapping, and at Slack its answer."""
    message = held.message
    with transaction.atomic():
        changed = _leased_automation_message(held).update(
            status=MessageStatus.SENT,
            ended_at=Now(),
            attempts=F("attempts") + 1,
            external_id=external_id,
            thread=thread or message.thread,
            last_error="",
            **_message_lease_given_back(),
        )
        if not changed:
            return CasOutcome.LOST
        if thread:
            _note_thread(message, thread)
    return CasOutcome.WON


def _note_thread(message: AutomationMessage, thread: str) -> None:
    """The task's row is locked against its end, which takes its mappings away."""
    tasks = AutomationTask.objects.select_for_update(no_key=True)
    task = None if message.task_id is None else tasks.filter(pk=message.task_id).first()
    if task is None:
        return
    place: dict[str, Any] = {"channel": message.channel, "target": message.target}
    if task.status != TaskStatus.COMPLETED:
        ThreadMapping.objects.get_or_create(task=task, **place, defaults={"thread": thread})
    if message.awaits_answer and not _is_webhook_question(message):
        _await_answer(message, thread)


def _is_webhook_question(message: AutomationMessage) -> bool:
    return message.awaits_answer and message.channel == MessageChannel.WEBHOOK


def _await_answer(message: AutomationMessage, thread: str) -> None:
    task = None if message.task_id is None else AutomationTask.objects.filter(pk=message.task_id).first()
    if task is not None:
        place: dict[str, Any] = {"channel": message.channel, "target": message.target}
        AwaitedAnswer.objects.update_or_create(**place, thread=thread, defaults={"task": task})


def put_off_message(held: MessageClaim, *, seconds: float, error: str) -> CasOutcome:
    """It did not arrive, and that is certain."""
    return _put_off_automation_message(held, seconds=seconds, error=error, unclear=False)


def doubt_message(held: MessageClaim, *, seconds: float, error: str) -> CasOutcome:
    """It may have arrived: the sender that takes it next looks first."""
    return _put_off_automation_message(held, seconds=seconds, error=error, unclear=True)


def _put_off_automation_message(held: MessageClaim, *, seconds: float, error: str, unclear: bool) -> CasOutcome:
    changed = _leased_automation_message(held).update(
        next_attempt_at=Now() + timedelta(seconds=seconds),
        attempts=F("attempts") + 1,
        last_error=error,
        unclear=unclear,
        **_message_lease_given_back(),
    )
    return CasOutcome.WON if changed else CasOutcome.LOST


def give_back(held: MessageClaim) -> CasOutcome:
    """Not tried: due as before, as clear or unclear as before, and no attempt is counted."""
    return CasOutcome.WON if _leased_automation_message(held).update(**_message_lease_given_back()) else CasOutcome.LOST


def fail_message(held: MessageClaim, *, error: str) -> CasOutcome:
    """No answer to it is awaited any more."""
    message = held.message
    with transaction.atomic():
        changed = _leased_automation_message(held).update(
            status=MessageStatus.FAILED,
            ended_at=Now(),
            attempts=F("attempts") + 1,
            last_error=error,
            **_message_lease_given_back(),
        )
        if changed and _is_webhook_question(message):
            AwaitedAnswer.objects.filter(
                channel=message.channel, target=message.target, task_id=message.task_id
            ).delete()
    return CasOutcome.WON if changed else CasOutcome.LOST


def _leased_automation_message(held: MessageClaim) -> QuerySet[AutomationMessage]:
    return AutomationMessage.objects.filter(pk=held.message.pk, lease_owner=held.owner, status=MessageStatus.PENDING)


def _message_lease_given_back() -> dict[str, object]:
    return {"lease_owner": None, "lease_until": None, "version": F("version") + 1}
