"""The only writer of what becomes of events, tasks and attempts: one function an edge, each a compare-and-set.

    mark_event_dispatched  event PENDING -> DISPATCHED
    hold_event             event PENDING, to be looked at later
    complete_event         event PENDING or DISPATCHED -> COMPLETED; its seen row keeps the outcome
    start_task             task PENDING -> IN_PROGRESS, with its first attempt
    try_again              task IN_PROGRESS, with its next attempt
    hold_task              task PENDING, to be looked at later
    complete_task          task PENDING or IN_PROGRESS -> COMPLETED
    lease_attempt          attempt OPEN: one process submits it
    put_off_attempt        attempt OPEN, to be submitted later under the same key
    put_off_end            attempt RUNNING, whose run's end is to be noted later
    accept_attempt         attempt OPEN -> RUNNING: its run stands
    refuse_attempt         attempt OPEN -> REFUSED: no run ever stood
    end_attempt            attempt RUNNING -> SUCCEEDED or FAILED, with its charge

The loser has changed nothing. What must be true with an edge is written by the caller in the same transaction, and only
where the edge was won. Ages go by the database's clock. Triggers hold the same edges against every other writer.
Messages have theirs in `message_steps.py`, a source's marks in `source_marks.py`.
"""

import enum
import uuid
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from django.db import IntegrityError, transaction
from django.db.models import Case, F, Model, Q, QuerySet, UUIDField, Value, When
from django.db.models.functions import Coalesce, Now

from ops.automations.models import AutomationAttempt, AutomationEvent, AutomationTask, SeenEvent
from ops.automations.states import AttemptStatus, EventOutcome, EventStatus, TaskOutcome, TaskStatus

SUBMIT_LEASE: Final = timedelta(seconds=30)
"""Longer than a submit; one that takes longer is repeated beside it, under the same key."""


Row = TypeVar("Row", bound=Model)


class CasOutcome(enum.Enum):
    WON = "won"
    LOST = "lost"
    BUSY = "busy"
    """Its workspace has another task at work."""


# Events


def mark_event_dispatched(*, event_pk: uuid.UUID, version: int, rule_id: uuid.UUID) -> CasOutcome:
    return _automation_cas_outcome(
        AutomationEvent.objects.filter(pk=event_pk, version=version, status=EventStatus.PENDING).update(
            status=EventStatus.DISPATCHED,
            rule_id=rule_id,
            dispatched_at=Now(),
            waits_for="",
            faults=0,
            **_automation_step_columns(),
        )
    )


def hold_event(
    *,
    event_pk: uuid.UUID,
    version: int,
    seconds: float,
    waits_for: str,
    rule_id: uuid.UUID | None = None,
    faults: int = 0,
) -> CasOutcome:
    """`rule_id` is the rule whose bound it waits for, among whose events it takes its turn."""
    later = Now() + timedelta(seconds=seconds)
    return _automation_cas_outcome(
        AutomationEvent.objects.filter(pk=event_pk, version=version, status=EventStatus.PENDING).update(
            next_try_at=later, waits_for=waits_for, rule_id=rule_id, faults=faults, **_automation_step_columns()
        )
    )


def complete_event(
    *, event_pk: uuid.UUID, version: int, outcome: EventOutcome, reason: str = "", rule_id: uuid.UUID | None = None
) -> CasOutcome:
    """`rule_id` only where a rule dropped it: one that it waited for is forgotten, the one of its task is not.

    The seen row outlives the event, and so does its outcome.
    """
    dropped_by = Value(rule_id, output_field=UUIDField())
    rule = Case(When(status=EventStatus.PENDING, then=dropped_by), default=F("rule_id"))
    with transaction.atomic():
        rows = AutomationEvent.objects.filter(pk=event_pk, version=version).exclude(status=EventStatus.COMPLETED)
        changed = rows.update(
            status=EventStatus.COMPLETED,
            outcome=outcome,
            reason=reason,
            completed_at=Now(),
            waits_for="",
            rule_id=rule,
            **_automation_step_columns(),
        )
        if not changed:
            return CasOutcome.LOST
        event = AutomationEvent.objects.only("source_id", "event_id").get(pk=event_pk)
        SeenEvent.objects.filter(source_id=event.source_id, event_id=event.event_id).update(outcome=outcome)
    return CasOutcome.WON


# Tasks


def start_task(*, task_id: uuid.UUID, version: int, reserved_micros: int) -> CasOutcome:
    """With its first attempt. Of two tasks of one workspace the index lets one begin."""
    row = AutomationTask.objects.filter(pk=task_id, version=version, status=TaskStatus.PENDING)
    try:
        with transaction.atomic():
            if not row.update(
                status=TaskStatus.IN_PROGRESS,
                attempts=1,
                started_at=Now(),
                waits_for="",
                faults=0,
                **_automation_step_columns(),
            ):
                return CasOutcome.LOST
            _begin(task_id, attempt=1, reserved_micros=reserved_micros)
    except IntegrityError as error:
        if "automation_task_one_a_workspace" in str(error):
            return CasOutcome.BUSY
        raise
    return CasOutcome.WON


def try_again(*, task_id: uuid.UUID, version: int, attempt: int, reserved_micros: int) -> CasOutcome:
    """`attempt` is the number of the one that begins: the row must stand at the one before."""
    with transaction.atomic():
        row = AutomationTask.objects.filter(
            pk=task_id, version=version, status=TaskStatus.IN_PROGRESS, attempts=attempt - 1
        )
        if not row.update(attempts=attempt, waits_for="", faults=0, **_automation_step_columns()):
            return CasOutcome.LOST
        _begin(task_id, attempt=attempt, reserved_micros=reserved_micros)
    return CasOutcome.WON


def _begin(task_id: uuid.UUID, *, attempt: int, reserved_micros: int) -> None:
    rule_id = AutomationTask.objects.values_list("rule_id", flat=True).get(pk=task_id)
    AutomationAttempt.objects.create(
        task_id=task_id, attempt=attempt, rule_id=rule_id, reserved_usd_micros=reserved_micros
    )


def hold_task(*, task_id: uuid.UUID, version: int, seconds: float, waits_for: str, faults: int = 0) -> CasOutcome:
    return _automation_cas_outcome(
        AutomationTask.objects.filter(pk=task_id, version=version)
        .exclude(status=TaskStatus.COMPLETED)
        .update(
            next_try_at=Now() + timedelta(seconds=seconds),
            waits_for=waits_for,
            faults=faults,
            **_automation_step_columns(),
        )
    )


def complete_task(*, task_id: uuid.UUID, version: int, outcome: TaskOutcome, reason: str = "") -> CasOutcome:
    return _automation_cas_outcome(
        AutomationTask.objects.filter(pk=task_id, version=version)
        .exclude(status=TaskStatus.COMPLETED)
        .update(
            status=TaskStatus.COMPLETED,
            outcome=outcome,
            reason=reason,
            completed_at=Now(),
            waits_for="",
            **_automation_step_columns(),
        )
    )


# Attempts


def lease_attempt(*, attempt_pk: int) -> CasOutcome:
    """By elapsed time alone. A lease that ran out leaves an attempt whose run may stand: its holder may have died after
    the submit.
    """
    free = Q(lease_until__isnull=True) | Q(lease_until__lte=Now())
    return _automation_cas_outcome(
        AutomationAttempt.objects.filter(free, pk=attempt_pk, status=AttemptStatus.OPEN, next_try_at__lte=Now()).update(
            lease_until=Now() + SUBMIT_LEASE,
            unclear=Case(When(lease_until__isnull=False, then=Value(value=True)), default=F("unclear")),
        )
    )


def put_off_attempt(
    *, attempt_pk: int, seconds: float, reason: str, unavailable: bool = False, unclear: bool = False
) -> CasOutcome:
    """`unavailable`: by what passes by itself, and since when is kept. `unclear`: its run may stand all the same."""
    doubt = {"unclear": True} if unclear else {}
    return _automation_cas_outcome(
        AutomationAttempt.objects.filter(pk=attempt_pk, status=AttemptStatus.OPEN).update(
            lease_until=None,
            next_try_at=Now() + timedelta(seconds=seconds),
            reason=reason,
            unavailable_since=Coalesce("unavailable_since", Now()) if unavailable else None,
            **doubt,
        )
    )


def accept_attempt(*, attempt_pk: int, run_id: uuid.UUID) -> CasOutcome:
    return _automation_cas_outcome(
        AutomationAttempt.objects.filter(pk=attempt_pk, status=AttemptStatus.OPEN).update(
            status=AttemptStatus.RUNNING,
            run_id=run_id,
            accepted_at=Now(),
            lease_until=None,
            unavailable_since=None,
            reason="",
        )
    )


def put_off_end(*, attempt_pk: int, seconds: float, reason: str) -> CasOutcome:
    return _automation_cas_outcome(
        AutomationAttempt.objects.filter(pk=attempt_pk, status=AttemptStatus.RUNNING).update(
            next_try_at=Now() + timedelta(seconds=seconds),
            reason=reason,
            unavailable_since=Coalesce("unavailable_since", Now()),
        )
    )


def refuse_attempt(*, attempt_pk: int, lease_until: datetime | None, reason: str) -> CasOutcome:
    """By the holder of the lease: a process that took it over may have a run accepted at this moment."""
    mine = AutomationAttempt.objects.filter(pk=attempt_pk, status=AttemptStatus.OPEN, lease_until=lease_until)
    return _automation_cas_outcome(
        mine.update(status=AttemptStatus.REFUSED, charged_usd_micros=0, ended_at=Now(), lease_until=None, reason=reason)
    )


def end_attempt(*, attempt_pk: int, succeeded: bool, charged_micros: int, reason: str) -> CasOutcome:
    """The charge is added to its task's, in the same transaction."""
    status = AttemptStatus.SUCCEEDED if succeeded else AttemptStatus.FAILED
    with transaction.atomic():
        row = AutomationAttempt.objects.filter(pk=attempt_pk, status=AttemptStatus.RUNNING)
        if not row.update(status=status, charged_usd_micros=charged_micros, ended_at=Now(), reason=reason):
            return CasOutcome.LOST
        AutomationTask.objects.filter(tries__pk=attempt_pk).update(
            charged_usd_micros=F("charged_usd_micros") + charged_micros, **_automation_step_columns()
        )
    return CasOutcome.WON


def unless_locked(rows: QuerySet[Row], pk: Any) -> Row | None:
    """The row, locked, in the caller's transaction; None where another session has it.

    For what a pass does to a row that failed: to wait for its lock would end the pass, and with it the rows behind.
    """
    return rows.select_for_update(no_key=True, skip_locked=True).filter(pk=pk).first()


def _automation_step_columns() -> dict[str, Any]:
    return {"version": F("version") + 1}


def _automation_cas_outcome(changed: int) -> CasOutcome:
    return CasOutcome.WON if changed else CasOutcome.LOST
