"""DELETING: what is left of a workspace goes from the driver. Its archive stays until it is purged.

| dies | is left | repaired by |
|---|---|---|
| before or after a removal | the container, or none | the next attempt looks again |
| after DOOMED | dead volumes | deleted by name: gone is as good |
| before the end | nothing at the driver | any attempt, by what the monitor saw |
"""

from ops.workspaces.drivers.base import DriverRefused, VerbAnswer
from ops.workspaces.models import Workspace
from ops.workspaces.operations.work import OperationWork
from ops.workspaces.rows import transitions, volumes
from ops.workspaces.rows.writing import writing_as
from ops.workspaces.states import DesiredState, OperationStep, Writer


def clear_deleted_container(work: OperationWork) -> OperationStep | None:
    row = work.row()
    if row.desired_state != DesiredState.DELETED:
        return OperationStep.ABANDON
    found = work.driver.look_container(work.container_name)
    if found is not None and work.is_ours(found):
        work.remove(found)
    with writing_as(Writer.RECONCILER):
        locked = Workspace.objects.select_for_update(no_key=True).get(pk=row.pk)
        if locked.desired_state != DesiredState.DELETED:
            work.advance(OperationStep.ABANDON)
            return None
        if locked.discard:  # said by a person, for a workspace in ERROR
            volumes.doom_all(row.pk)
        else:
            volumes.doom_unfinished(row.pk)
        if volumes.live_volume(row.pk) is not None:
            raise DriverRefused("it has a home that was not archived", reason="VolumeStillLive")
        work.advance(OperationStep.DELETE)
    return None


def delete_left_volumes(work: OperationWork) -> OperationStep:
    row = work.row()
    left_over = volumes.dead_volumes(work.seen(row).volume.detail.get("volumes", ()))
    for name, starts in (left_over | volumes.doomed_volumes(row.pk)).items():
        work.hold()
        if work.driver.delete_volume(name, starts=starts) is VerbAnswer.IN_USE:
            raise DriverRefused(f"something uses {name}", reason="VolumeInUse")
        volumes.mark_volume_gone(name)
    return OperationStep.OBSERVE


def abandon_deleting(work: OperationWork) -> None:
    """The wish was taken back, and nothing live was touched."""
    transitions.abandon_operation(work.claim)
