"""What is to be said is a row first: written in the transaction of its reason, sent later by a sender."""

import uuid
from typing import Final

from django.db import transaction

from dpp_project import uuid7
from ops.automations import numbers
from ops.automations.models import AutomationMessage, AutomationRule, AutomationTask, ThreadMapping
from ops.automations.states import MessageChannel, MessageKind

BODY_LENGTH_MAX: Final = 30_000
SAID: Final = "automation.message"
"""What a message to a webhook calls itself."""
_CUT: Final = "\n[…]"


def queue_message(
    *,
    channel: MessageChannel,
    target: str,
    body: str,
    task: AutomationTask | None = None,
    rule: AutomationRule | None = None,
    thread: str = "",
    kind: MessageKind = MessageKind.RESULT,
    key: str | None = None,
    awaits_answer: bool = False,
) -> AutomationMessage:
    """A PENDING message, in the caller's transaction or one of its own. Key: `key`; said again, the first is answered.

    Without a thread it goes to the one that the task is spoken of in, or begins one. Of a longer body the end is cut.
    """
    if key is not None and (found := AutomationMessage.objects.filter(key=key).first()) is not None:
        return found
    if task is not None and not thread:
        mapped = ThreadMapping.objects.filter(task_id__in=_spoken_of(task), channel=channel, target=target).first()
        thread = "" if mapped is None else mapped.thread
    with transaction.atomic():
        values = {
            "number": numbers.next_number(numbers.MESSAGE),  # two with one key take turns at it, so that one finds
            "kind": kind,
            "channel": channel,
            "target": target,
            "thread": thread,
            "body": body if len(body) <= BODY_LENGTH_MAX else body[: BODY_LENGTH_MAX - len(_CUT)] + _CUT,
            "task": task,
            "rule": rule if rule is not None or task is None else task.rule,
            "awaits_answer": awaits_answer,
            "message_id": uuid7.new_uuid7(),
        }
        if key is None:
            return AutomationMessage.objects.create(**values)
        return AutomationMessage.objects.get_or_create(key=key, defaults=values)[0]


def thread_at_webhook(message: AutomationMessage) -> str:
    """What an answer names: all messages of a task stand in one thread. The same at every attempt."""
    return message.thread or (message.pk if message.task_id is None else message.task_id).hex


def _spoken_of(task: AutomationTask) -> list[uuid.UUID]:
    return [task.pk] if task.resumes_id is None else [task.pk, task.resumes_id]
