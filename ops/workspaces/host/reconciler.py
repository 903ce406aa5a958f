"""Brings what is to what is wished, one operation at a time. It reads rows only: what is there, the monitor says.

A pass takes the operations that may go on and begins those that the plan calls for, each on a thread of a bounded pool
(places.py). It goes through all rows until no thread is free: one that has to wait, for a place or for the bucket,
hides none behind it, and one that cannot be read is skipped. A recovery has such a thread too: it reads an archive back
whole, and a pass that waited for it would be taken for hung.

Two reconcilers of one driver, or one that died, cost at most a lease: claims skip locked rows, and who lost one writes
no more. Nothing is begun on a driver that is frozen.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

import structlog
from django.db.models import Exists, F, Q, QuerySet
from django.db.models.functions import Now

from dpp_project.jobs.skipped_rows import SkippedRows
from ops.workspaces import conditions, planning
from ops.workspaces.archive_port import ArchivePort
from ops.workspaces.conditions import LEFT_OVER_CONTAINERS, ConditionReason, Conditions, container_key
from ops.workspaces.drivers.base import Driver
from ops.workspaces.host import recovering
from ops.workspaces.host.places import THREADS, HostThreads, Occupant, occupant_of
from ops.workspaces.models import Workspace
from ops.workspaces.operations import running
from ops.workspaces.operations.work import OperationWork
from ops.workspaces.planning import Situation
from ops.workspaces.rows import transitions
from ops.workspaces.rows.transitions import OperationClaim
from ops.workspaces.states import FIRST_STEPS, DesiredState, Operation, OperationStep, Phase

log = structlog.get_logger("dpp.workspaces")

BATCH: Final = 200
_NOT_SETTLED: Final = frozenset({*LEFT_OVER_CONTAINERS, ConditionReason.CONTAINER_OUTDATED})


@dataclass(slots=True)
class ReconcilePass:
    adopted: int = 0
    went_on: int = 0
    began: int = 0


class Reconciler:
    """`start` has an action run elsewhere and comes back at once; `to_look_at` takes the id of a workspace that both
    loops are to turn to at once.
    """

    def __init__(
        self,
        driver: Driver,
        store: ArchivePort,
        *,
        driver_id: str,
        start: Callable[[Callable[[], None]], None],
        to_look_at: Callable[[UUID], None] = lambda _id: None,
    ) -> None:
        self._driver = driver
        self._store = store
        self._driver_id = driver_id
        self._to_look_at = to_look_at
        self._start = start
        self._places = HostThreads()

    @property
    def is_at_work(self) -> bool:
        return self._places.room < THREADS

    def run_once(self) -> ReconcilePass:
        adopted = transitions.adopt_workspace(self._driver_id, kind=self._driver.kind, limit=BATCH)
        for workspace_id in adopted:
            self._to_look_at(workspace_id)
        report, skipped = ReconcilePass(adopted=len(adopted)), SkippedRows("workspaces")
        chosen = self._operations_with_place(skipped)
        for claim in transitions.take_operations(self._driver_id, only=chosen):
            self._set_to_work(claim, chosen[claim.workspace_id])
            report.went_on += 1
        for row in all_unsettled(self._driver_id, kind=self._driver.kind):
            if self._places.room <= 0:
                break
            with skipped.each(row.pk):
                if (begun := self._consider(row)) is not None:
                    self._set_to_work(begun, occupant_of(row.tenant_id, begun.operation, begun.step))
                    report.began += 1
        return report

    def _operations_with_place(self, skipped: SkippedRows) -> dict[UUID, Occupant]:
        """Of those that may go on. What asks the bucket comes last: while it is away, each try of those that were put
        off takes a thread for as long as its timeouts."""
        places, chosen, found = self._places.copy(), dict[UUID, Occupant](), list[tuple[UUID, Occupant]]()
        waiting = transitions.operations_to_take(self._driver_id).values_list("pk", "tenant_id", "operation", "op_step")
        for pk, tenant_id, operation, step in waiting:
            with skipped.each(pk):  # a step may be of a later release
                found.append((pk, occupant_of(tenant_id, Operation(operation), OperationStep(step))))
        for pk, occupant in sorted(found, key=lambda one: one[1].asks_bucket):
            if places.room > 0 and places.has_bucket_place(occupant):
                places.take(pk, occupant)
                chosen[pk] = occupant
        return chosen

    def _consider(self, row: Workspace) -> OperationClaim | None:
        """One row at rest: what a person asked for first, then what it counts, then what comes next."""
        if row.recovered_generation < row.recover_generation:
            self._set_to_recover(row)
            return None
        if row.deleted_at is not None:
            transitions.undelete_workspace_row(row)
            return None
        seen = Conditions.stored(row.conditions, kind=self._driver.kind)
        wanted = planning.plan_operation(workspace_situation(row, seen))
        if wanted is None:
            if _has_lasted(row, seen):
                transitions.settle_workspace(row)
            return None
        counted = (row.error_info or {}).get("container_id")
        if wanted is Operation.STARTING and planning.is_a_crash(seen, counted_id=counted):
            message, container_id = seen.container.message, seen.container.detail["container_id"]
            transitions.mark_workspace_crashed(
                row, reason=running.exit_reason(seen), message=message, container_id=container_id
            )
            return None
        occupant = occupant_of(row.tenant_id, wanted, FIRST_STEPS[wanted])
        if not (self._places.has_thread(row.tenant_id) and self._places.has_bucket_place(occupant)):
            return None
        return transitions.begin_operation(row, wanted) or self._begun_anew(row, wanted)

    def _begun_anew(self, row: Workspace, wanted: Operation) -> OperationClaim | None:
        """The monitor may have looked meanwhile, for a hint wakes both: once more, where it saw the same."""
        now = Workspace.objects.get(pk=row.pk)
        is_same = (now.conditions, now.generation, now.rev) == (row.conditions, row.generation, row.rev)
        return transitions.begin_operation(now, wanted) if is_same and now.observed_at != row.observed_at else None

    def _set_to_work(self, claim: OperationClaim, occupant: Occupant) -> None:
        self._places.take(claim, occupant)
        self._run_on_a_thread(claim, partial(self._work, claim))

    def _run_on_a_thread(self, place: Hashable, action: Callable[[], None]) -> None:
        """The place is left where no thread can be started: a lease, or the next pass, brings the work up again."""
        try:
            self._start(action)
        except Exception:
            self._places.leave(place)
            raise

    def _work(self, claim: OperationClaim) -> None:
        try:
            running.run_operation(OperationWork(claim, self._driver, self._store))
        except Exception:
            log.exception("an operation was left to its lease", workspace=str(claim.workspace_id))
        finally:
            self._places.leave(claim)
        self._to_look_at(claim.workspace_id)

    def _set_to_recover(self, row: Workspace) -> None:
        """Once at a time; it counts as one that reads a home."""
        reader = Occupant(row.tenant_id, asks_bucket=True, reads_home=True)
        if not (self._places.has_bucket_place(reader) and self._places.take(row.pk, reader)):
            return
        self._run_on_a_thread(row.pk, partial(self._recover, row))

    def _recover(self, row: Workspace) -> None:
        try:
            recovering.recover_seen_workspace(row, self._store, kind=self._driver.kind)
        except Exception:
            log.exception("a recovery was left to the next pass", workspace=str(row.pk))
        finally:
            self._places.leave(row.pk)


def all_unsettled(driver_id: str, *, kind: str) -> Iterator[Workspace]:
    """Each once, a batch at a time: the next begins behind the last one's end."""
    due = unsettled_workspaces(driver_id, kind=kind)
    rows = list(due[:BATCH])
    while rows:
        yield from rows
        last = rows[-1]
        if last.next_reconcile_at is None:
            behind = Q(next_reconcile_at__isnull=False) | Q(next_reconcile_at__isnull=True, pk__gt=last.pk)
        else:
            later = Q(next_reconcile_at__gt=last.next_reconcile_at)
            behind = later | Q(next_reconcile_at=last.next_reconcile_at, pk__gt=last.pk)
        rows = list(due.filter(behind)[:BATCH]) if len(rows) == BATCH else []


def unsettled_workspaces(driver_id: str, *, kind: str) -> QuerySet[Workspace]:
    """At rest, and not as they are wished to be, as far as a query can tell; the plan decides."""
    reason = f"conditions__{container_key(kind)}__reason"
    # A new workspace that is to be archived has nothing to put there: it stays as it is.
    is_elsewhere = ~Q(desired_state=F("phase")) & ~Q(phase=Phase.PENDING, desired_state=DesiredState.ARCHIVED)
    is_left_over = Q(**{f"{reason}__in": sorted(_NOT_SETTLED)}) | Q(
        **{f"conditions__{conditions.VOLUME_READY}__reason": ConditionReason.HOME_DOOMED}
    )
    is_asked_for = Q(recovered_generation__lt=F("recover_generation"))
    is_undeleted = Q(deleted_at__isnull=False) & ~Q(desired_state=DesiredState.DELETED)
    is_to_forget = Q(error_count__gt=0, error_info__is_terminal=False)
    in_error = Q(phase=Phase.ERROR, discard=False) & ~is_asked_for
    return (
        Workspace.objects.filter(is_elsewhere | is_left_over | is_asked_for | is_undeleted | is_to_forget)
        .filter(Q(next_reconcile_at__isnull=True) | Q(next_reconcile_at__lte=Now()) | is_asked_for)
        .filter(~Exists(transitions.frozen_drivers(driver_id)), driver_id=driver_id, operation=Operation.NONE)
        .filter(purged_at__isnull=True)
        .exclude(in_error)
        .exclude(Q(deleted_at__isnull=False, desired_state=DesiredState.DELETED))
        .order_by(F("next_reconcile_at").asc(nulls_first=True), "workspace_id")
    )


def workspace_situation(row: Workspace, seen: Conditions) -> Situation:
    """Who reads the row has asked whether the driver is frozen; `begin` asks again."""
    return Situation(
        desired=DesiredState(row.desired_state),
        phase=Phase(row.phase),
        conditions=seen,
        operation=Operation(row.operation),
        is_fresh=row.observed_at is not None and row.observed_rev >= row.rev,
        is_frozen=False,
        is_terminal=bool((row.error_info or {}).get("is_terminal")),
        is_deleted=row.deleted_at is not None,
        discard=row.discard,
    )


def _has_lasted(row: Workspace, seen: Conditions) -> bool:
    """What failed before is over: it runs, and has run for longer than a crash takes."""
    if row.error_count == 0 or row.phase != Phase.RUNNING or row.desired_state != DesiredState.RUNNING:
        return False
    since = datetime.fromisoformat(seen.container.last_transition_time)
    return since <= transitions.database_now() - timedelta(seconds=planning.CRASH_SECONDS)
