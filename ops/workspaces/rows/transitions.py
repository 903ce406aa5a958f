"""The only writer of the reconciler's columns: one function an edge, each a compare-and-set.

    adopt_workspace         no driver -> this one
    begin_operation         NONE -> an operation, by what was seen
    take_operations         a lease that was given back or has run out -> the next attempt
    hold_operation          the lease goes on; a loser learns here that it has lost
    advance_operation       one step -> the next, and rev grows: what was seen before counts no more
    park_operation          the lease is given back until the monitor has looked, or a pause is over
    complete_operation      an operation -> NONE, by an observation made after its last effect
    abandon_operation       ARCHIVING -> NONE, before its volume is doomed
    fail_operation          an operation -> NONE or another try; tenth counted failure in one transaction -> terminal
    put_off_operation       a driver or bucket that is away: the same operation, later, and not counted
    mark_workspace_crashed  NONE: a container that was started and ended too soon
    refuse_operation        NONE: what cannot be begun, for a person
    settle_workspace        NONE: what failed before is forgotten
    doubt_workspace         NONE: what was seen counts no more
    complete_deletion, undelete_workspace_row, purge_workspace, end_recovery

An operation's edges compare (op_id, op_attempt, op_step), so that of two that work on one operation the older writes
nothing. The volume and archive rows of an effect, and its line of the timeline, are in the same transaction. Ages go by
the database's clock. What does not win has changed nothing.
"""

import random
import uuid
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Exists, F, Q, QuerySet
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from ops.workspaces import metrics, planning
from ops.workspaces.models import Workspace, WorkspaceDriver
from ops.workspaces.rows import archives, volumes
from ops.workspaces.rows.timeline import add_to_timeline
from ops.workspaces.rows.writing import writing_as
from ops.workspaces.states import FIRST_STEPS, NO_WAY_BACK, WAITING_STEPS, Operation, OperationStep, Writer

LEASE_SECONDS: Final = 60.0
"""Longer than any one look or verb of a driver; uploads and restores renew it with their progress, and under their
silent ends (operations/work.py)."""
LEASE: Final = timedelta(seconds=LEASE_SECONDS)
ACTOR: Final = "reconciler"


class ClaimLost(Exception):  # noqa: N818  an outcome
    """Another attempt has taken the operation over, or it has ended: this one writes and does nothing more."""


@dataclass(frozen=True, slots=True)
class OperationClaim:
    """One attempt at one operation."""

    workspace_id: uuid.UUID
    driver_id: str
    operation: Operation
    op_id: uuid.UUID
    attempt: int
    step: OperationStep


def database_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        found: datetime = cursor.fetchone()[0]
        return found


def adopt_workspace(driver_id: str, *, kind: str, limit: int) -> list[uuid.UUID]:
    """Workspaces that no driver has yet. An image needs Docker."""
    fits = Q() if kind == "docker" else Q(spec__image__isnull=True) | Q(spec__image=None)
    with writing_as(Writer.RECONCILER):
        found = list(
            Workspace.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
            .filter(fits, driver_id__isnull=True, deleted_at__isnull=True)
            .values_list("pk", flat=True)[:limit]
        )
        for workspace_id in found:
            add_to_timeline(workspace_id, "Adopted", actor=ACTOR, driver_id=driver_id)
        Workspace.objects.filter(pk__in=found, driver_id__isnull=True).update(driver_id=driver_id)
    return found


def begin_operation(seen: Workspace, operation: Operation) -> OperationClaim | None:
    """By what was seen, and only while it stands: the wish, the observation, the driver at work."""
    claim = OperationClaim(seen.pk, str(seen.driver_id), operation, uuid.uuid4(), 1, FIRST_STEPS[operation])
    with writing_as(Writer.RECONCILER):
        won = (
            _at_rest(seen)
            .filter(generation=seen.generation, desired_state=seen.desired_state, observed_at=seen.observed_at)
            .filter(~Exists(frozen_drivers(claim.driver_id)))
            .update(
                operation=operation,
                op_id=claim.op_id,
                op_attempt=claim.attempt,
                op_step=claim.step,
                op_started_at=Now(),
                op_lease_until=Now() + LEASE,
                op_progress_bytes=0,
                rev=F("rev") + 1,
            )
        )
        if not won:
            return None
        add_to_timeline(seen.pk, "OperationBegun", actor=ACTOR, operation=operation, op_id=str(claim.op_id))
        if operation is Operation.RESTORING and not archives.pin_archive(str(seen.archive_key), op_id=claim.op_id):
            _end_claimed_operation(claim)
            _note_failure(claim, reason="ArchiveNotFound", message=f"{seen.archive_key} is not to be restored from")
            return None
    return claim


def operations_to_take(driver_id: str) -> QuerySet[Workspace]:
    """Those that nobody works on and that may go on, the longest waiting first."""
    due = (Q(op_lease_until__lte=Now()) | Q(op_lease_until__gt=Now() + 2 * LEASE)) & (
        Q(next_reconcile_at__isnull=True) | Q(next_reconcile_at__lte=Now())
    )
    looked_at = ~Q(op_step__in=WAITING_STEPS) | Q(observed_rev__gte=F("rev"))
    return (
        Workspace.objects.filter(due, looked_at, ~Exists(frozen_drivers(driver_id)), driver_id=driver_id)
        .exclude(operation=Operation.NONE)
        .order_by("op_lease_until")
    )


def take_operations(driver_id: str, *, only: Collection[uuid.UUID]) -> list[OperationClaim]:
    """Of these workspaces, what may go on still. An attempt each: the one before writes no more."""
    if not only:
        return []
    with writing_as(Writer.RECONCILER):
        overtaken: list[str] = []
        rows = list(
            operations_to_take(driver_id)
            .filter(pk__in=only)
            .select_for_update(skip_locked=True, of=("self",), no_key=True)
        )
        claims = [_of_row(row) for row in rows]
        for row, claim in zip(rows, claims, strict=True):
            _workspace_row_at_claim(claim).update(op_attempt=F("op_attempt") + 1, op_lease_until=Now() + LEASE)
            if row.op_lease_until != row.op_started_at:
                add_to_timeline(row.pk, "OperationTakenOver", actor=ACTOR, operation=row.operation, step=row.op_step)
                overtaken.append(row.operation)
    for operation in overtaken:
        metrics.TAKEOVERS.labels(operation=operation).inc()
    return [replace(claim, attempt=claim.attempt + 1) for claim in claims]


def hold_operation(claim: OperationClaim, *, progress_bytes: int | None = None) -> None:
    """Before each effect, and with its progress. Raises ClaimLost; so does a driver that was frozen meanwhile."""
    changes: dict[str, Any] = {} if progress_bytes is None else {"op_progress_bytes": progress_bytes}
    with writing_as(Writer.RECONCILER):
        if (
            not _workspace_row_at_claim(claim)
            .filter(~Exists(frozen_drivers(claim.driver_id)))
            .update(op_lease_until=Now() + LEASE, **changes)
        ):
            raise ClaimLost


def advance_operation(claim: OperationClaim, step: OperationStep, **changes: Any) -> OperationClaim:
    """After an effect. Inside a transaction of the reconciler's where rows of volumes or archives go with it."""
    with writing_as(Writer.RECONCILER):
        if not _workspace_row_at_claim(claim).update(
            op_step=step, op_lease_until=Now() + LEASE, rev=F("rev") + 1, **changes
        ):
            raise ClaimLost
    return replace(claim, step=step)


def park_operation(claim: OperationClaim) -> None:
    with writing_as(Writer.RECONCILER):
        _workspace_row_at_claim(claim).update(op_lease_until=F("op_started_at"))


def complete_operation(claim: OperationClaim, *, seen: Workspace, **changes: Any) -> bool:
    """By what was seen, and only while it stands."""
    forgotten: dict[str, Any] = {"reconcile_failure_count": 0, "next_reconcile_at": None}
    if claim.operation is not Operation.STARTING:  # it has to last first (`settle_workspace`)
        forgotten |= {"error_count": 0, "error_info": None}
    with writing_as(Writer.RECONCILER):
        rows = _workspace_row_at_claim(claim).filter(observed_rev__gte=F("rev"), observed_at=seen.observed_at)
        won = rows.update(operation=Operation.NONE, op_step="", op_lease_until=None, **forgotten, **changes)
        if won:
            archives.unpin_archives(op_id=claim.op_id)
            add_to_timeline(claim.workspace_id, "OperationCompleted", actor=ACTOR, operation=claim.operation)
    if won and seen.op_started_at is not None:
        seconds = (database_now() - seen.op_started_at).total_seconds()
        metrics.OPERATION_SECONDS.labels(operation=claim.operation).observe(max(seconds, 0.0))
    return won > 0


def abandon_operation(claim: OperationClaim) -> bool:
    """Only from the step of that name, which nothing leads to once the volume is doomed."""
    with writing_as(Writer.RECONCILER):
        won = _end_claimed_operation(replace(claim, step=OperationStep.ABANDON))
        if won:
            add_to_timeline(claim.workspace_id, "OperationAbandoned", actor=ACTOR, operation=claim.operation)
    return won


def fail_operation(
    claim: OperationClaim,
    *,
    reason: str,
    message: str,
    ends: bool = False,
    for_good: bool = False,
    container_id: str | None = None,
) -> None:
    """Counted. It ends the operation, whose id is never used again, unless its volume is doomed; `ends` says that it
    ends even so. The tenth in a row ends it for good, and so does what only a person can decide. `container_id` is of
    one that has ended, and is counted by this.
    """
    stays = claim.operation is Operation.ARCHIVING and claim.step in NO_WAY_BACK and not ends
    with writing_as(Writer.RECONCILER):
        row = _workspace_row_at_claim(claim).select_for_update().first()
        if row is None:
            return
        is_terminal = for_good or row.error_count + 1 >= planning.COUNTED_MAX
        if stays and not is_terminal:
            _workspace_row_at_claim(claim).update(op_step=OperationStep.DELETE, op_lease_until=F("op_started_at"))
        else:
            _end_claimed_operation(claim)
        detail = {} if container_id is None else {"container_id": container_id}
        _note_failure(claim, reason=reason, message=message, for_good=for_good, **detail)


def put_off_operation(claim: OperationClaim, *, reason: str, message: str) -> None:
    """Not counted: it says nothing about the workspace. The next attempt goes on where this one stopped."""
    with writing_as(Writer.RECONCILER):
        row = _workspace_row_at_claim(claim).select_for_update().first()
        if row is None:
            return
        number = row.reconcile_failure_count + 1
        _workspace_row_at_claim(claim).update(
            op_lease_until=F("op_started_at"),
            reconcile_failure_count=number,
            next_reconcile_at=_after(planning.pause_seconds(number, chance=_chance())),
            error_info=_error_info(claim, reason=reason, message=message, is_terminal=False, count=row.error_count),
        )
        if number == 1:
            add_to_timeline(
                claim.workspace_id, "OperationPutOff", actor=ACTOR, operation=claim.operation, reason=reason
            )


def mark_workspace_crashed(seen: Workspace, *, reason: str, message: str, container_id: str) -> bool:
    """Its container ended too soon after its start: counted once, by the container's id."""
    return _counted_at_rest(seen, reason=reason, message=message, detail={"container_id": container_id})


def refuse_operation(seen: Workspace, *, reason: str, message: str) -> bool:
    """What only a person can decide."""
    return _counted_at_rest(seen, reason=reason, message=message, detail={}, is_terminal=True)


def settle_workspace(seen: Workspace) -> bool:
    with writing_as(Writer.RECONCILER):
        return (
            _at_rest(seen)
            .filter(observed_at=seen.observed_at)
            .update(error_count=0, error_info=None, reconcile_failure_count=0, next_reconcile_at=None)
            > 0
        )


def doubt_workspace(workspace_id: uuid.UUID) -> bool:
    """Something was found out that a look would show: the monitor is to look at all of it anew."""
    with writing_as(Writer.RECONCILER):
        rows = Workspace.objects.filter(pk=workspace_id, operation=Operation.NONE, purged_at__isnull=True)
        return rows.update(rev=F("rev") + 1) > 0


def complete_deletion(claim: OperationClaim, *, seen: Workspace) -> bool:
    """Neither container nor volume was seen after the last effect."""
    return complete_operation(claim, seen=seen, deleted_at=Now(), home_ctx={}, rev=F("rev") + 1)


def undelete_workspace_row(seen: Workspace) -> bool:
    """The API has taken the wish back, within the time it keeps; its archive is still there."""
    with writing_as(Writer.RECONCILER):
        rows = _at_rest(seen).filter(deleted_at__isnull=False, purged_at__isnull=True).exclude(desired_state="DELETED")
        won = rows.update(deleted_at=None, rev=F("rev") + 1) > 0
        if won:
            add_to_timeline(seen.pk, "WayBackBegun", actor=ACTOR)
    return won


def purge_workspace(workspace_id: uuid.UUID) -> bool:
    """Its archives are no longer protected by its key."""
    with writing_as(Writer.RECONCILER):
        rows = Workspace.objects.filter(pk=workspace_id, deleted_at__isnull=False, purged_at__isnull=True)
        rows = rows.filter(desired_state="DELETED", operation=Operation.NONE)
        won = rows.update(purged_at=Now(), archive_key=None, rev=F("rev") + 1) > 0
        if won:
            add_to_timeline(workspace_id, "Purged", actor=ACTOR)
    return won


def end_recovery(seen: Workspace, *, outcome: str, **changes: Any) -> bool:
    """What a person asked for is consumed, whatever came of it; `changes` are what it changed, with the rest of what
    failed forgotten.
    """
    forgotten: dict[str, Any] = {}
    if changes.pop("is_granted", True):
        forgotten = {"error_count": 0, "error_info": None, "reconcile_failure_count": 0, "next_reconcile_at": None}
    with writing_as(Writer.RECONCILER):
        rows = _at_rest(seen).filter(recover_generation=seen.recover_generation)
        won = rows.update(recovered_generation=seen.recover_generation, rev=F("rev") + 1, **(forgotten | changes))
        if won:
            add_to_timeline(seen.pk, "Recovered" if forgotten else "RecoverRefused", actor=ACTOR, outcome=outcome)
    return won > 0


def frozen_drivers(driver_id: str) -> QuerySet[WorkspaceDriver]:
    return WorkspaceDriver.objects.filter(driver_id=driver_id, frozen_at__isnull=False)


def _workspace_row_at_claim(claim: OperationClaim) -> QuerySet[Workspace]:
    return Workspace.objects.filter(
        pk=claim.workspace_id,
        operation=claim.operation,
        op_id=claim.op_id,
        op_attempt=claim.attempt,
        op_step=claim.step,
    )


def _at_rest(seen: Workspace) -> QuerySet[Workspace]:
    return Workspace.objects.filter(
        pk=seen.pk, driver_id=seen.driver_id, operation=Operation.NONE, rev=seen.rev, purged_at__isnull=True
    )


def _of_row(row: Workspace) -> OperationClaim:
    if row.op_id is None:
        raise ValueError("an operation has an id: the table holds it to that")
    return OperationClaim(
        row.pk, str(row.driver_id), Operation(row.operation), row.op_id, row.op_attempt, OperationStep(row.op_step)
    )


def _end_claimed_operation(claim: OperationClaim) -> bool:
    """The id stays. Volumes that it began to fill, and the archive that it read, are let go."""
    won = _workspace_row_at_claim(claim).update(
        operation=Operation.NONE, op_step="", op_lease_until=None, rev=F("rev") + 1
    )
    if won:
        volumes.doom_unfinished(claim.workspace_id)
        archives.unpin_archives(op_id=claim.op_id)
    return won > 0


def _note_failure(claim: OperationClaim, *, reason: str, message: str, for_good: bool = False, **detail: Any) -> None:
    """In the transaction that has won the row."""
    row = Workspace.objects.get(pk=claim.workspace_id)
    count = row.error_count + 1
    is_terminal = for_good or count >= planning.COUNTED_MAX
    Workspace.objects.filter(pk=row.pk).update(
        error_count=count,
        reconcile_failure_count=row.reconcile_failure_count + 1,
        next_reconcile_at=None if is_terminal else _after(planning.counted_pause_seconds(count, chance=_chance())),
        error_info=_error_info(claim, reason=reason, message=message, is_terminal=is_terminal, count=count) | detail,
        rev=F("rev") + 1,
    )
    kind = "OperationFailedForGood" if is_terminal else "OperationFailed"
    add_to_timeline(row.pk, kind, actor=ACTOR, operation=claim.operation, step=claim.step, reason=reason, count=count)


def _counted_at_rest(
    seen: Workspace, *, reason: str, message: str, detail: dict[str, Any], is_terminal: bool = False
) -> bool:
    count = seen.error_count + 1
    is_terminal = is_terminal or count >= planning.COUNTED_MAX
    info = {"reason": reason, "message": message, "is_terminal": is_terminal, "retry_count": count} | detail
    with writing_as(Writer.RECONCILER):
        won = _at_rest(seen).update(
            error_count=count,
            reconcile_failure_count=F("reconcile_failure_count") + 1,
            next_reconcile_at=None if is_terminal else _after(planning.counted_pause_seconds(count, chance=_chance())),
            error_info=info,
            rev=F("rev") + 1,
        )
        if won:
            add_to_timeline(
                seen.pk, "FailedForGood" if is_terminal else "Failed", actor=ACTOR, reason=reason, count=count
            )
    return won > 0


def _error_info(claim: OperationClaim, *, reason: str, message: str, is_terminal: bool, count: int) -> dict[str, Any]:
    return {
        "reason": reason,
        "message": message,
        "is_terminal": is_terminal,
        "retry_count": count,
        "operation": claim.operation,
        "step": claim.step,
        "op_id": str(claim.op_id),
    }


def _after(seconds: float) -> Combinable:
    return Now() + timedelta(seconds=seconds)


def _chance() -> float:
    return random.random()  # noqa: S311  spreads, and hides nothing
