"""Runs that ended become results; tasks end; what is to be said is queued.

Level-triggered: attempts that are RUNNING and whose run is committed, however long ago. There is no word of a run's end
that could be lost, repeated or late. A run that succeeded ends attempt, task and event, leaves
result and message, and takes the task's mappings away, in one transaction. One that failed ends its attempt; the task
goes on (`buying.go_on`), or ends there. The envelope is read before the transaction begins.
"""

import json
import uuid
from dataclasses import dataclass
from typing import Any, Final

import structlog
from botocore.exceptions import BotoCoreError, ClientError
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from budget.money import format_exact_usd
from ops.automations import metrics, transitions
from ops.automations.emitting import storable_json
from ops.automations.models import (
    AutomationAttempt,
    AutomationEvent,
    AutomationResult,
    AutomationTask,
    ThreadMapping,
)
from ops.automations.notify import telling
from ops.automations.states import AttemptStatus, EventOutcome, MessageKind, TaskOutcome, TaskStatus
from ops.automations.tasks import faults
from ops.automations.transitions import CasOutcome
from runs.bucket import storage
from runs.models import Run
from runs.states import Stage, Status

log = structlog.get_logger("dpp.automations")

ENVELOPE_BYTES_MAX: Final = 1_048_576
DATA_BYTES_MAX: Final = 262_144
SUMMARY_LENGTH_MAX: Final = 2_000
AGAIN_SECONDS: Final = 15.0

_ENDED: Final = """
SELECT attempt.id FROM automation_attempt attempt JOIN runs USING (run_id)
 WHERE attempt.status = 'RUNNING' AND runs.finalize_stage = 'COMMITTED'
   AND attempt.next_try_at <= statement_timestamp()
 ORDER BY attempt.next_try_at, attempt.id LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """What a run left behind."""

    data: Any = None
    summary: str = ""
    session_id: str = ""
    session_log: Any = None


DELETED: Final = RunAnswer(summary="the run's data were deleted")


def end_due(*, limit: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_ENDED, [limit])
        found = [row[0] for row in cursor.fetchall()]
    for attempt_pk in found:
        try:
            end_attempt(attempt_pk)
        except Exception as error:
            log.exception("run's end not noted", attempt=attempt_pk)
            _put_off_end_of_attempt(attempt_pk, faults.fault_said(error))
    return len(found)


def _put_off_end_of_attempt(attempt_pk: int, reason: str) -> None:
    """Without an end: its run is paid, and what it answered is to be had. One that another session has locked stays
    due.
    """
    with transaction.atomic():
        if transitions.unless_locked(AutomationAttempt.objects.only("pk"), attempt_pk) is not None:
            transitions.put_off_end(attempt_pk=attempt_pk, seconds=AGAIN_SECONDS, reason=reason)


def end_attempt(attempt_pk: int) -> None:
    attempt = AutomationAttempt.objects.select_related("task").get(pk=attempt_pk)
    if attempt.status != AttemptStatus.RUNNING or attempt.run_id is None:
        return
    run = Run.objects.get(pk=attempt.run_id)
    if run.finalize_stage != Stage.COMMITTED:
        return
    succeeded = run.intent_status == Status.COMPLETED  # the status itself may be EXPIRED by now
    reason = "" if succeeded else str(run.last_error_reason_code or run.status)
    charged = run.actual_cost_usd_micros or 0
    answer = answer_of_run(run) if succeeded else None
    with transaction.atomic():
        ended = transitions.end_attempt(
            attempt_pk=attempt_pk, succeeded=succeeded, charged_micros=charged, reason=reason
        )
        if ended is not CasOutcome.WON:
            return
        metrics.ATTEMPTS.labels((AttemptStatus.SUCCEEDED if succeeded else AttemptStatus.FAILED).value).inc()
        if answer is not None:
            _finish(attempt.task_id, outcome=TaskOutcome.SUCCEEDED, reason="", run_id=run.pk, answer=answer)


def answer_of_run(run: Run) -> RunAnswer:
    """Raises what S3 raises when it does not answer. An envelope that is gone leaves a result without data."""
    if not run.result_key:
        return RunAnswer()
    try:
        # A page or a command may hold what Postgres cannot: its task would never end, nor its workspace be free again.
        envelope = storable_json(
            json.loads(storage.shared_run_storage().read(run.result_key, max_bytes=ENVELOPE_BYTES_MAX))
        )
    except (storage.ObjectMissing, storage.ObjectTooLarge):
        return RunAnswer(summary="the result's envelope is gone")
    except (ValueError, RecursionError):
        return RunAnswer(summary="the result's envelope cannot be kept here")
    data = envelope.get("data")
    log_of_session: dict[str, Any] = {"logs": envelope.get("logs"), "problem": envelope.get("problem")}
    if run.pack_type == "command" and isinstance(data, dict):
        log_of_session |= {name: data.get(name) for name in ("stdout", "stderr")}
    fits = len(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")) <= DATA_BYTES_MAX
    said = data.get("session_id") if isinstance(data, dict) else None
    return RunAnswer(
        data=data if fits else None,
        summary=summary_of(data),
        session_id=said[:200] if isinstance(said, str) else "",
        session_log=log_of_session,
    )


def summary_of(data: Any) -> str:
    """What the pack calls its summary; of a command what it wrote; else the data themselves, cut."""
    if isinstance(data, dict):
        for name in ("summary", "stdout"):
            if isinstance(data.get(name), str) and data[name].strip():
                return str(data[name]).strip()[:SUMMARY_LENGTH_MAX]
    return json.dumps(data, ensure_ascii=False)[:SUMMARY_LENGTH_MAX]


def finish_task(
    task_id: uuid.UUID,
    *,
    outcome: TaskOutcome,
    reason: str,
    version: int | None = None,
    refused: AutomationAttempt | None = None,
) -> None:
    """A task that ends without a run that succeeded. Safe to repeat. With a version: unless it has moved since.

    `refused` is its OPEN attempt, which ends with it: after a death between the two the next would buy all the same.
    """
    last = AutomationAttempt.objects.filter(task_id=task_id, run_id__isnull=False).order_by("-attempt").first()
    run = None if last is None or last.run_id is None else Run.objects.filter(pk=last.run_id).first()
    answer = RunAnswer()
    if run is not None:
        try:
            answer = answer_of_run(run)
        except (BotoCoreError, ClientError) as error:  # its session log alone is missed
            log.warning("envelope of a failed run not read", run_id=str(run.pk), exc_info=error)
    with transaction.atomic():
        locked = AutomationTask.objects.select_for_update(no_key=True).filter(pk=task_id)
        if version is not None and locked.filter(version=version).first() is None:
            return
        if refused is not None:
            ended = transitions.refuse_attempt(attempt_pk=refused.pk, lease_until=refused.lease_until, reason=reason)
            if ended is not CasOutcome.WON:
                return
            metrics.ATTEMPTS.labels(AttemptStatus.REFUSED.value).inc()
        _finish(task_id, outcome=outcome, reason=reason, run_id=None if run is None else run.pk, answer=answer)


def _finish(
    task_id: uuid.UUID, *, outcome: TaskOutcome, reason: str, run_id: uuid.UUID | None, answer: RunAnswer
) -> None:
    """In the caller's transaction: the ends of task and event, result, message, and no mapping any more."""
    task = AutomationTask.objects.select_for_update(no_key=True, of=("self",)).select_related("rule").get(pk=task_id)
    if task.status == TaskStatus.COMPLETED:
        return
    if run_id is not None and Run.objects.filter(pk=run_id, retention_until__lte=Now()).exists():
        answer = DELETED  # by its tenant, perhaps since the envelope was read: what is copied here now would stay
    transitions.complete_task(task_id=task.pk, version=task.version, outcome=outcome, reason=reason[:1_000])
    if answer is DELETED:  # before this attempt knew its run, the deletion did not find the task
        AutomationTask.objects.filter(pk=task.pk, inputs__isnull=False).update(inputs=None, version=F("version") + 1)
    AutomationResult.objects.create(
        task=task,
        rule_id=task.rule_id,
        thread=task.thread,
        run_id=run_id,
        outcome=outcome,
        summary=answer.summary,
        data=answer.data,
        session_id=answer.session_id,
        session_log=answer.session_log,
    )
    event = AutomationEvent.objects.select_for_update(no_key=True).get(pk=task.event_id)
    succeeded = outcome is TaskOutcome.SUCCEEDED
    transitions.complete_event(
        event_pk=event.pk,
        version=event.version,
        outcome=EventOutcome.SUCCEEDED if succeeded else EventOutcome.FAILED,
        reason=reason[:1_000],
    )
    asks = succeeded and task.rule.awaits_answers
    telling.tell_rule_targets(
        task.rule,
        body=body_of(task, outcome, reason=reason, answer=answer),
        kind=MessageKind.QUESTION if asks else MessageKind.RESULT,
        task=task,
        key=message_key(task.pk),
        awaits_answer=asks,
    )
    ThreadMapping.objects.filter(task=task).delete()


def message_key(task_id: uuid.UUID) -> str:
    return f"result:{task_id}"


def body_of(task: AutomationTask, outcome: TaskOutcome, *, reason: str, answer: RunAnswer) -> str:
    said = answer.summary if outcome is TaskOutcome.SUCCEEDED else reason
    runs = "no run" if not task.attempts else f"{task.attempts} run{'s' if task.attempts > 1 else ''}"
    cost = format_exact_usd(task.charged_usd_micros)
    return f"{task.rule.name} {task.number} {outcome.value} ({runs}, {cost} USD)\n{said}".strip()
