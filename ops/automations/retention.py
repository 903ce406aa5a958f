"""What automations leave behind goes when its days are over.

    queues (events, tasks, messages)   7 days after their end
    results                            7 days
    prompts                            3 days: a task's inputs, and those of its runs
    session logs                       7 days
    seen events                       30 days
    numbers of a date, notices        30 days

What is in use stays, however old: an event whose task stands, a task that is not ended, that a message still has to
tell of or that an answer is awaited for, with its result; the seen row of an event that is kept.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Exists, OuterRef, QuerySet

from dpp_project.constants import RETENTION_DAYS
from dpp_project.retention import DAILY, Clearing, DataKind
from ops.automations.models import (
    AutomationAttempt,
    AutomationEvent,
    AutomationMessage,
    AutomationNotice,
    AutomationResult,
    AutomationTask,
    AwaitedAnswer,
    NumberOfDay,
    SeenEvent,
)
from ops.automations.states import AttemptStatus, EventStatus, MessageStatus, TaskStatus
from runs import transitions

_COMPLETED: Final = {"status": TaskStatus.COMPLETED}
_BYTES: Final = "SELECT coalesce(sum(pg_column_size({column})), 0) FROM {table} WHERE task_id = ANY(%s)"


def _prompts(cutoff: datetime) -> QuerySet[AutomationTask]:
    return AutomationTask.objects.filter(**_COMPLETED, inputs__isnull=False, completed_at__lt=cutoff)


def _session_logs(cutoff: datetime) -> QuerySet[AutomationResult]:
    return AutomationResult.objects.filter(session_log__isnull=False, created_at__lt=cutoff)


def _results(cutoff: datetime) -> QuerySet[AutomationResult]:
    return AutomationResult.objects.filter(~_untold(), ~_awaited(), created_at__lt=cutoff)


def _messages(cutoff: datetime) -> QuerySet[AutomationMessage]:
    return AutomationMessage.objects.exclude(status=MessageStatus.PENDING).filter(ended_at__lt=cutoff)


def _tasks(cutoff: datetime) -> QuerySet[AutomationTask]:
    at_work = AutomationAttempt.objects.filter(
        task_id=OuterRef("task_id"), status__in=[AttemptStatus.OPEN, AttemptStatus.RUNNING]
    )
    ended = AutomationTask.objects.filter(**_COMPLETED, completed_at__lt=cutoff)
    return ended.filter(~_untold(), ~_awaited(), ~Exists(at_work))


def _expired_taskless_events(cutoff: datetime) -> QuerySet[AutomationEvent]:
    task = AutomationTask.objects.filter(event_id=OuterRef("event_pk"))
    return AutomationEvent.objects.filter(~Exists(task), status=EventStatus.COMPLETED, completed_at__lt=cutoff)


def _expired_seen_events(cutoff: datetime) -> QuerySet[SeenEvent]:
    """None whose event is kept, ended or not: its source would bring it again, and one id has no two events."""
    events = AutomationEvent.objects.filter(source_id=OuterRef("source_id"), event_id=OuterRef("event_id"))
    return SeenEvent.objects.filter(~Exists(events), at__lt=cutoff)


def _untold() -> Exists:
    return Exists(AutomationMessage.objects.filter(task_id=OuterRef("task_id"), status=MessageStatus.PENDING))


def _awaited() -> Exists:
    return Exists(AwaitedAnswer.objects.filter(task_id=OuterRef("task_id")))


def _forget_prompts(task_ids: Sequence[Any]) -> int:
    """The tasks' own, and those of their runs, in one transaction."""
    freed = _bytes_of("automation_task", "inputs", task_ids)
    runs = AutomationAttempt.objects.filter(task_id__in=task_ids, run_id__isnull=False)
    transitions.clear_inputs(run_ids=[run_id for run_id in runs.values_list("run_id", flat=True) if run_id is not None])
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE automation_task SET inputs = NULL, version = version + 1 WHERE task_id = ANY(%s)", [list(task_ids)]
        )
    return freed


def _forget_session_logs(task_ids: Sequence[Any]) -> int:
    freed = _bytes_of("automation_result", "session_log", task_ids)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE automation_result SET session_log = NULL WHERE task_id = ANY(%s)", [list(task_ids)])
    return freed


def _bytes_of(table: str, column: str, task_ids: Sequence[Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_BYTES.format(column=column, table=table), [list(task_ids)])
        return int(cursor.fetchone()[0])


KINDS: Final = (
    DataKind(
        name="automation_rules",
        tables=("automation_source", "automation_rule"),
        states="enabled or not; a rule: ended",
        made_by="operators",
        read_by="pollers, dispatching",
        until="for good",
        why="What bought a run, and on whose word.",
        deleted_by="no part of the platform",
    ),
    # In this order: what another row needs goes after it.
    DataKind(
        name="automation_prompts",
        columns=("automation_task.inputs",),
        states="rendered",
        made_by="dispatching",
        read_by="the task's attempts",
        setting="DPP_PROMPTS_DAYS",
        until="after the task ended, with the inputs of its runs",
        why="To look into a fault.",
        deleted_by=DAILY,
        clearing=Clearing(rows=_prompts, order=("completed_at", "task_id"), instead=_forget_prompts),
    ),
    DataKind(
        name="automation_session_logs",
        columns=("automation_result.session_log",),
        states="written",
        made_by="a task's end: the envelope's logs, a command's output",
        read_by="operators",
        setting="DPP_SESSION_LOGS_DAYS",
        until="after the result was made",
        why="What a run wrote, to look into a fault.",
        deleted_by=DAILY,
        clearing=Clearing(rows=_session_logs, order=("created_at", "task_id"), instead=_forget_session_logs),
    ),
    DataKind(
        name="automation_results",
        tables=("automation_result",),
        states="SUCCEEDED, FAILED",
        made_by="a task's end",
        read_by="messages, later tasks of the same thread",
        setting="DPP_RESULTS_DAYS",
        until="after it was made",
        why="The memory of later tasks of the same thread.",
        deleted_by=DAILY,
        clearing=Clearing(rows=_results, order=("created_at", "task_id")),
    ),
    DataKind(
        name="automation_messages",
        tables=("automation_message",),
        states="PENDING, SENT, FAILED",
        made_by="a task's end, the daily report, bounds reached",
        read_by="the sender",
        setting="DPP_QUEUE_DAYS",
        until="after it was sent or given up",
        why="It is where it was sent to.",
        deleted_by=DAILY,
        clearing=Clearing(rows=_messages, order=("ended_at", "message_id")),
    ),
    DataKind(
        name="automation_tasks",
        tables=("automation_task", "automation_attempt"),
        states="PENDING, IN_PROGRESS, COMPLETED; an attempt: OPEN, RUNNING, SUCCEEDED, FAILED, REFUSED",
        made_by="dispatching; attempts by buying",
        read_by="buying, ending",
        setting="DPP_QUEUE_DAYS",
        until="after it ended",
        why="The daily report counted it; the run has its own row.",
        deleted_by=DAILY,
        clearing=Clearing(
            rows=_tasks,
            order=("completed_at", "task_id"),
            along=("automation_attempt.task_id", "automation_thread_mapping.task_id"),
        ),
    ),
    DataKind(
        name="automation_threads",
        tables=("automation_thread_mapping", "automation_awaited_answer"),
        states="open",
        made_by="a message that begins a thread, or asks",
        read_by="the sender, the hook that takes answers",
        until="until the task ended, or the answer came",
        why="Where a task is spoken of.",
        deleted_by="a task's end, an answer",
    ),
    DataKind(
        name="automation_events",
        tables=("automation_event",),
        states="PENDING, DISPATCHED, COMPLETED",
        made_by="sources",
        read_by="dispatching",
        setting="DPP_QUEUE_DAYS",
        until="after it was completed",
        why="The daily report counted it; that it was seen is remembered longer.",
        deleted_by=DAILY,
        clearing=Clearing(rows=_expired_taskless_events, order=("completed_at", "event_pk")),
    ),
    DataKind(
        name="seen_events",
        tables=("seen_event",),
        states="seen, with its outcome",
        made_by="sources, with the event",
        read_by="sources",
        setting="DPP_SEEN_DAYS",
        until="after it was seen",
        why="No repetition of an event buys a second run.",
        deleted_by=DAILY,
        clearing=Clearing(rows=_expired_seen_events, order=("at", "id")),
    ),
    DataKind(
        name="automation_notices",
        tables=("automation_notice",),
        states="said",
        made_by="bounds reached, the daily report",
        read_by="the same, so that it is said once",
        days=RETENTION_DAYS,
        until="after it was said",
        why="What was said an hour or a date ago is not said again.",
        deleted_by=DAILY,
        clearing=Clearing(
            rows=lambda cutoff: AutomationNotice.objects.filter(told_at__lt=cutoff), order=("told_at", "key")
        ),
    ),
    DataKind(
        name="automation_numbers",
        tables=("automation_number",),
        states="the last one given",
        made_by="a task, a message",
        read_by="the next one of its date",
        days=RETENTION_DAYS,
        until="after its date",
        why="Numbers are for people, and begin anew each date.",
        deleted_by=DAILY,
        clearing=Clearing(
            rows=lambda cutoff: NumberOfDay.objects.filter(day__lte=cutoff.date()), order=("kind", "day", "id")
        ),
    ),
)
