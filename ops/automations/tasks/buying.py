"""Tasks buy runs: one attempt, one run, one charge, under the key `{task}:{attempt}`.

    start       PENDING -> IN_PROGRESS with its first attempt, under the rule's row lock, where the hour has room
    go on       IN_PROGRESS without an attempt at work: the next one, with what the ceiling has left, or the end
    lease       one process submits an attempt; another takes it over when the lease has run out
    files       in a workspace, where the rule names one
    submit      as a tenant's request does, under the attempt's own key
    accept      the attempt knows its run

Dying anywhere leaves the row at the step before, and the same key asks again: the run that stands is answered, also one
whose key went with its data meanwhile. A refusal that a person can lift (money, a cap) puts the attempt off until then.
One that passes by itself (an engine, a workspace that wakes) puts it off, too: after five minutes a message says so,
and after a day the task ends. Any other refusal ends the task.
"""

import uuid
from datetime import timedelta
from typing import Final

import structlog
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from budget.money import MICROS_PER_STEP
from dpp_project import clock
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from dpp_project.stores.postgres import database_now
from ops.automations import metrics, transitions
from ops.automations.models import AutomationAttempt, AutomationTask
from ops.automations.notify import telling
from ops.automations.states import AttemptStatus, TaskOutcome, TaskStatus
from ops.automations.tasks import bounds, ending, faults, submitting, workspace_files
from ops.automations.tasks.workspace_files import FilesLater
from ops.automations.transitions import CasOutcome
from runs.cancel import cancellation

log = structlog.get_logger("dpp.automations")

HOLD_SECONDS: Final = 30.0
BUSY_SECONDS: Final = 2.0
ERROR_SECONDS: Final = 15.0
ACTOR: Final = "automations"
_AT_WORK: Final = (AttemptStatus.OPEN, AttemptStatus.RUNNING)
_REFUSED: Final = AttemptStatus.REFUSED
_WAITS: Final = {
    ReasonCode.SPEND_CAP_REACHED: bounds.MONEY,
    ReasonCode.BUDGET_DRAINED: bounds.MONEY,
    ReasonCode.EXECUTION_DISABLED: bounds.SUBMITS_STOPPED,
}
"""Until a person does something: the rule's `notify` hears of it, once an hour."""
_PASSES: Final = frozenset(
    {
        ReasonCode.BUDGET_UNAVAILABLE,
        ReasonCode.IDEMPOTENCY_IN_PROGRESS,
        ReasonCode.QUEUE_ENQUEUE_FAILED,
        ReasonCode.ENGINE_UNAVAILABLE,
        ReasonCode.WORKSPACE_WAKING,
        ReasonCode.WORKSPACE_QUOTA_REACHED,
        ReasonCode.RATE_LIMITED,
        ReasonCode.SERVICE_UNAVAILABLE,
    }
)
"""By itself, soon."""
UNAVAILABLE_TOLD_AFTER: Final = faults.TOLD_AFTER
UNAVAILABLE_AT_MOST: Final = timedelta(hours=24)
"""As long as a message is tried."""
_CANCELED: Final = frozenset({ReasonCode.CANCELED_BY_OWNER.value, ReasonCode.CANCELED_BY_OPERATOR.value})
"""A person has ended the run, and does not find it bought again."""


def buy_due(*, limit: int) -> int:
    """How much there was to do."""
    return start_due(limit=limit) + go_on_due(limit=limit) + submit_due(limit=limit)


def start_due(*, limit: int) -> int:
    due = AutomationTask.objects.filter(status=TaskStatus.PENDING, next_try_at__lte=Now())
    return _each(list(due.order_by("next_try_at", "task_id").values_list("pk", flat=True)[:limit]))


def go_on_due(*, limit: int) -> int:
    """Tasks between two attempts; also what a process left there that died after it had noted an attempt's end."""
    at_work = AutomationAttempt.objects.filter(task_id=OuterRef("pk"), status__in=_AT_WORK)
    due = AutomationTask.objects.filter(~Exists(at_work), status=TaskStatus.IN_PROGRESS, next_try_at__lte=Now())
    return _each(list(due.order_by("next_try_at", "task_id").values_list("pk", flat=True)[:limit]))


def _each(found: list[uuid.UUID]) -> int:
    for task_id in found:
        try:
            go_on(task_id)
        except Exception as error:
            log.exception("task not started", task=str(task_id))
            _retry_or_fail_task(task_id, error)
    return len(found)


def go_on(task_id: uuid.UUID) -> None:
    """The task's next attempt, where there may be one; else its end, or a pause.

    The row is read before its attempts. An attempt that another process has begun since this task was found is either
    seen here, or it has moved the version, and then each step below changes nothing.
    """
    task = AutomationTask.objects.select_related("rule").get(pk=task_id)
    if task.status == TaskStatus.COMPLETED or task.tries.filter(status__in=_AT_WORK).exists():
        return
    fault = _no_more(task)
    if fault is not None:
        ending.finish_task(task.pk, version=task.version, outcome=TaskOutcome.FAILED, reason=fault)
        return
    left = task.max_cost_usd_micros - task.charged_usd_micros
    reserved = left - left % MICROS_PER_STEP
    with transaction.atomic():
        rule = bounds.locked_rule(task.rule_id)
        if bounds.attempts_left(rule) <= 0:
            _hold_task_for_bound(
                task, bound=bounds.RUNS_PER_HOUR, body=f"{rule.runs_per_hour} runs within an hour are reached"
            )
            return
        if task.status == TaskStatus.PENDING:
            begun = transitions.start_task(task_id=task.pk, version=task.version, reserved_micros=reserved)
        else:
            begun = transitions.try_again(
                task_id=task.pk, version=task.version, attempt=task.attempts + 1, reserved_micros=reserved
            )
        if begun is CasOutcome.BUSY:
            transitions.hold_task(task_id=task.pk, version=task.version, seconds=BUSY_SECONDS, waits_for="workspace")


def _no_more(task: AutomationTask) -> str | None:
    """Why no further attempt begins; of the last one, its own reason."""
    last = task.tries.order_by("-attempt").first()
    said = "" if last is None else last.reason
    if task.rule.ended_at is not None:
        return said or "RULE_ENDED"
    if task.inputs is None:
        return said or "INPUTS_CLEARED"
    if said in _CANCELED:
        return said
    if task.attempts >= task.attempts_max:
        return said or "ATTEMPTS_USED"
    if task.max_cost_usd_micros - task.charged_usd_micros < MICROS_PER_STEP:
        return f"{said}, CEILING_USED" if said else "CEILING_USED"
    return None


def _hold_task_for_bound(task: AutomationTask, *, bound: str, body: str) -> None:
    transitions.hold_task(task_id=task.pk, version=task.version, seconds=HOLD_SECONDS, waits_for=bound)
    telling.tell_bound(task.rule, bound=bound, body=f"{task.number} waits: {body}", task=task)


def _retry_or_fail_task(task_id: uuid.UUID, error: Exception) -> None:
    """One that another session has locked stays due."""
    with transaction.atomic():
        task = transitions.unless_locked(AutomationTask.objects.all(), task_id)
        if task is None or task.status == TaskStatus.COMPLETED:
            return
        again = faults.TRIES.after_failure(task.faults)
        if again is not None:
            transitions.hold_task(
                task_id=task_id,
                version=task.version,
                seconds=again.delay_seconds,
                waits_for=faults.ERROR,
                faults=again.count,
            )
            return
    ending.finish_task(task_id, version=task.version, outcome=TaskOutcome.FAILED, reason=faults.given_up(error))


def submit_due(*, limit: int) -> int:
    due = AutomationAttempt.objects.filter(status=AttemptStatus.OPEN, next_try_at__lte=Now())
    found = list(due.order_by("next_try_at", "pk").values_list("pk", flat=True)[:limit])
    for attempt_pk in found:
        try:
            if transitions.lease_attempt(attempt_pk=attempt_pk) is CasOutcome.WON:
                submit_attempt(attempt_pk)
        except Exception as error:
            log.exception("attempt not submitted", attempt=attempt_pk)
            _put_off_failed(attempt_pk, faults.fault_said(error))
    return len(found)


def _put_off_failed(attempt_pk: int, reason: str) -> None:
    """One that another session has locked stays due, when its lease has run out."""
    with transaction.atomic():
        if transitions.unless_locked(AutomationAttempt.objects.only("pk"), attempt_pk) is not None:
            transitions.put_off_attempt(
                attempt_pk=attempt_pk, seconds=ERROR_SECONDS, reason=reason, unavailable=True, unclear=True
            )


def submit_attempt(attempt_pk: int) -> None:
    """Under its lease. The same again under the same key does no harm."""
    attempt = AutomationAttempt.objects.select_related("task__rule", "task__event").get(pk=attempt_pk)
    task = attempt.task
    if attempt.unclear and (bought := submitting.run_without_key(attempt)) is not None:
        _accepted(attempt, bought)
        return
    if attempt.reason.startswith(faults.ERROR) and _waited(attempt) >= UNAVAILABLE_AT_MOST:
        _ended_unless_bought(attempt, _for_a_day(attempt.reason))
        return
    if task.workspace_id is not None:
        written = workspace_files.write_workspace_files(task, waited=_waited(attempt))
        if isinstance(written, FilesLater):
            _put_off_unavailable_attempt(attempt, seconds=written.seconds, reason=written.reason)
            return
        if written is not None:
            _settle_refused_attempt(attempt, written)
            return
    answer = submitting.submit_run_of_attempt(attempt)
    if isinstance(answer, Refusal):
        _settle_refused_attempt(attempt, answer)
        return
    _accepted(attempt, answer.receipt.run_id)


def _accepted(attempt: AutomationAttempt, run_id: uuid.UUID) -> None:
    won = transitions.accept_attempt(attempt_pk=attempt.pk, run_id=run_id)
    if won is not CasOutcome.WON and AutomationAttempt.objects.filter(pk=attempt.pk, status=_REFUSED).exists():
        # Bought behind a lease that had run out, when the process that took it over had been refused.
        log.warning("run of a refused attempt canceled", run_id=str(run_id), attempt=attempt.pk)
        cancellation.cancel_run(tenant_id=attempt.task.tenant_id, run_id=run_id, actor=ACTOR)
    if won is CasOutcome.WON and attempt.attempt == 1:
        seen_at = attempt.task.event.seen_at
        metrics.ACCEPTED_SECONDS.observe(max(0.0, (clock.now() - seen_at).total_seconds()))


def _settle_refused_attempt(attempt: AutomationAttempt, refusal: Refusal) -> None:
    reason = f"{refusal.reason.value}: {refusal.detail}"
    if refusal.reason in _PASSES:
        _put_off_unavailable_attempt(
            attempt, seconds=max(1.0, float(refusal.retry_after_seconds or BUSY_SECONDS)), reason=reason
        )
        return
    bound = _WAITS.get(refusal.reason)
    if bound is not None:
        with transaction.atomic():
            transitions.put_off_attempt(attempt_pk=attempt.pk, seconds=HOLD_SECONDS, reason=reason)
            said = f"{attempt.task.number} waits: {refusal.detail}"
            telling.tell_bound(attempt.task.rule, bound=bound, body=said, task=attempt.task)
        return
    _ended_unless_bought(attempt, reason)


def _put_off_unavailable_attempt(attempt: AutomationAttempt, *, seconds: float, reason: str) -> None:
    waited = _waited(attempt)
    if waited >= UNAVAILABLE_AT_MOST:
        _ended_unless_bought(attempt, _for_a_day(reason))
        return
    with transaction.atomic():
        transitions.put_off_attempt(attempt_pk=attempt.pk, seconds=seconds, reason=reason, unavailable=True)
        if waited >= UNAVAILABLE_TOLD_AFTER:
            said = f"{attempt.task.number} waits: {reason}"
            telling.tell_bound(attempt.task.rule, bound=bounds.UNAVAILABLE, body=said, task=attempt.task)


def _waited(attempt: AutomationAttempt) -> timedelta:
    since = attempt.unavailable_since
    return timedelta() if since is None else database_now() - since


def _for_a_day(reason: str) -> str:
    return f"{reason} (for {UNAVAILABLE_AT_MOST // timedelta(hours=1)} hours)"


def _ended_unless_bought(attempt: AutomationAttempt, reason: str) -> None:
    match submitting.standing_run(attempt):
        case submitting.NotHeldYet():
            transitions.put_off_attempt(attempt_pk=attempt.pk, seconds=BUSY_SECONDS, reason=reason, unavailable=True)
        case uuid.UUID() as run_id:
            _accepted(attempt, run_id)
        case None:
            ending.finish_task(attempt.task_id, outcome=TaskOutcome.FAILED, reason=reason, refused=attempt)
