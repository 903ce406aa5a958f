"""A run's data are deleted on request (DPP-92): what its task copied of them goes in the same transaction.

    inputs    the task's, which were the run's; an attempt that would still need them is refused, and the task ends
    result    summary, data, session id and session log, where this run made the result; that there was one stays
    message   the row with its text. One that was not sent yet is queued anew, and says that the data were deleted

The task's row is locked first, as the end of a task locks it (`ending.py`): that end either committed its copies
before, and they are found here, or it comes after and finds the run's time over. What reached Slack, or a webhook, is
not ours to delete. What other tasks read of the result is their own input.
"""

import uuid

from django.db.models import F

from ops.automations.models import AutomationMessage, AutomationResult, AutomationTask
from ops.automations.notify import telling
from ops.automations.states import MessageKind, MessageStatus, TaskOutcome
from ops.automations.tasks import ending
from runs import ports


def register_task_copies() -> None:
    ports.register_copies(delete_copies)


def delete_copies(run_id: uuid.UUID) -> None:
    """In the caller's transaction. Safe to repeat."""
    tasks = AutomationTask.objects.select_for_update(no_key=True, of=("self",)).select_related("rule")
    task = tasks.filter(tries__run_id=run_id).first()
    if task is None:
        return
    AutomationTask.objects.filter(pk=task.pk, inputs__isnull=False).update(inputs=None, version=F("version") + 1)
    deleted = ending.DELETED
    result = AutomationResult.objects.filter(pk=task.pk, run_id=run_id)
    if result.update(summary=deleted.summary, data=None, session_id="", session_log=None):
        _delete_message(task)


def _delete_message(task: AutomationTask) -> None:
    """The database lets no message change its text."""
    key = ending.message_key(task.pk)
    said = AutomationMessage.objects.select_for_update().filter(key=key).first()
    if said is None or task.outcome != TaskOutcome.SUCCEEDED or said.body.endswith(ending.DELETED.summary):
        return  # what is said of a task that failed is its reason, and nothing of a result
    said.delete()
    if said.status == MessageStatus.PENDING:
        telling.tell_rule_targets(
            task.rule,
            body=ending.body_of(task, TaskOutcome(str(task.outcome)), reason=task.reason, answer=ending.DELETED),
            kind=MessageKind(said.kind),
            task=task,
            key=key,
            awaits_answer=said.awaits_answer,
        )
