"""Takes one claim from step to step, until it waits for the monitor, ends or fails."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from dpp_project.stores.postgres import DATABASE_AWAY
from ops.workspaces import planning
from ops.workspaces.conditions import ConditionReason, Conditions
from ops.workspaces.drivers.base import DriverCorrupt, DriverError, DriverRefused, DriverUnavailable
from ops.workspaces.models import Workspace
from ops.workspaces.operations import archiving, containers, deleting, filling
from ops.workspaces.operations.work import OperationWork
from ops.workspaces.planning import Ending
from ops.workspaces.rows import transitions
from ops.workspaces.rows.transitions import ClaimLost
from ops.workspaces.states import WAITING_STEPS, Operation, OperationStep

log = structlog.get_logger("dpp.workspaces")

StepAction = Callable[[OperationWork], OperationStep | None]
"""What it answers comes next; None: it has moved the row itself."""


def observe_operation(work: OperationWork) -> OperationStep | None:
    """The end, by what was seen after the last effect."""
    row = work.row()
    seen = work.seen(row)
    operation = work.claim.operation
    match planning.operation_ending(
        operation, seen, is_fresh=row.observed_rev >= row.rev, home=row.home_ctx.get("volume")
    ):
        case Ending.WAIT:
            transitions.park_operation(work.claim)
        case Ending.COMPLETE:
            if not _complete_workspace_operation(work, row):
                transitions.park_operation(
                    work.claim
                )  # the monitor has looked meanwhile: the next attempt goes by what it saw
        case Ending.EXITED:
            transitions.fail_operation(
                work.claim,
                reason=exit_reason(seen),
                message=seen.container.message,
                container_id=seen.container.detail["container_id"],
            )
        case Ending.UNREADABLE:
            raise DriverCorrupt(seen.archive.message, reason=seen.archive.reason)
        case Ending.REPEAT:
            wrong = f"{seen.volume.reason}, {seen.container.reason}"
            raise DriverRefused(f"what was done is not to be seen: {wrong}", reason="NotObserved")
    return None


def _complete_workspace_operation(work: OperationWork, seen: Workspace) -> bool:
    if work.claim.operation is Operation.DELETING:
        return transitions.complete_deletion(work.claim, seen=seen)
    changes: dict[str, Any] = {"home_ctx": {}} if work.claim.operation is Operation.ARCHIVING else {}
    return transitions.complete_operation(work.claim, seen=seen, **changes)


def exit_reason(seen: Conditions) -> str:
    return "OutOfMemory" if seen.container.detail.get("out_of_memory") else ConditionReason.CONTAINER_EXITED


STEPS: Final[Mapping[Operation, Mapping[OperationStep, StepAction]]] = {
    Operation.STARTING: {OperationStep.START: containers.start_container, OperationStep.OBSERVE: observe_operation},
    Operation.STOPPING: {OperationStep.CLEAR: containers.stop_container, OperationStep.OBSERVE: observe_operation},
    Operation.ARCHIVING: {
        OperationStep.FENCE: archiving.fence_workspace,
        OperationStep.UPLOAD: archiving.upload_archive,
        OperationStep.VERIFY: archiving.verify_archive,
        OperationStep.SEE_ARCHIVE: archiving.see_archive,
        OperationStep.DELETE: archiving.delete_archived_volume,
        OperationStep.RELEASE: archiving.release_volume_name,
        OperationStep.OBSERVE: observe_operation,
        OperationStep.ABANDON: archiving.abandon_archiving,
    },
    Operation.PROVISIONING: {
        OperationStep.SURVEY: filling.survey_archives,
        OperationStep.FILL: filling.fill_volume,
        OperationStep.SWEEP: filling.sweep_doomed_volumes,
        OperationStep.OBSERVE: observe_operation,
    },
    Operation.RESTORING: {
        OperationStep.SURVEY: filling.survey_archives,
        OperationStep.FILL: filling.fill_volume,
        OperationStep.SWEEP: filling.sweep_doomed_volumes,
        OperationStep.OBSERVE: observe_operation,
    },
    Operation.DELETING: {
        OperationStep.CLEAR: deleting.clear_deleted_container,
        OperationStep.DELETE: deleting.delete_left_volumes,
        OperationStep.OBSERVE: observe_operation,
        OperationStep.ABANDON: deleting.abandon_deleting,
    },
}


def run_operation(work: OperationWork) -> None:
    """Every failure ends here: as the workspace's own, as the driver's, or as a claim that was lost."""
    try:
        while _goes_on(work):
            pass
    except ClaimLost:
        log.info("an operation was taken over", workspace=str(work.claim.workspace_id), step=work.claim.step)
    except DriverUnavailable as error:
        transitions.put_off_operation(work.claim, reason=error.reason, message=str(error))
    except DriverError as error:
        transitions.fail_operation(
            work.claim, reason=error.reason, message=str(error), ends=error.for_good, for_good=error.for_good
        )
    except DATABASE_AWAY:
        raise  # nothing can be written; the lease runs out
    except Exception as error:
        log.exception("an operation failed unexpectedly", workspace=str(work.claim.workspace_id))
        transitions.fail_operation(work.claim, reason="InternalError", message=type(error).__name__)


def _goes_on(work: OperationWork) -> bool:
    before = work.claim
    after = STEPS[before.operation][before.step](work)
    if after is not None:
        work.advance(after)
    if work.claim == before:
        return False
    if work.claim.step in WAITING_STEPS:
        transitions.park_operation(work.claim)
        return False
    return True
