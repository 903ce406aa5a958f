"""STARTING and STOPPING. The home is not touched.

| dies | is left | repaired by |
|---|---|---|
| before or after a removal | the container, or none | the next attempt looks again |
| before or after the start | none, or a running one | the next attempt's start answers `already` |
| before the end | all done | any attempt, by what the monitor saw |
"""

from ops.workspaces import specs
from ops.workspaces.drivers.base import SeenContainer
from ops.workspaces.models import Workspace, WorkspaceVolume
from ops.workspaces.operations.work import OperationWork
from ops.workspaces.rows import transitions, volumes
from ops.workspaces.states import OperationStep


def marker_of(volume: WorkspaceVolume) -> dict[str, str] | None:
    """What says that a volume was filled to its end: none where it began empty."""
    if volume.filled_from is None:
        return None
    return {"volume": volume.volume_name, "archive": volume.filled_from}


def container_lacks_marker(row: Workspace, home: WorkspaceVolume) -> bool:
    return bool(row.home_ctx.get("restore_marker") != marker_of(home))


def start_container(work: OperationWork) -> OperationStep | None:
    row = work.row()
    home = volumes.live_volume(row.pk)
    if home is None or container_lacks_marker(row, home):
        transitions.fail_operation(
            work.claim,
            reason="MarkerMissing",
            message="nothing says that the home was filled to its end; recheck its archive",
            for_good=True,
        )
        return None
    spec_hash = specs.spec_hash(row.spec)

    def is_the_one(found: SeenContainer) -> bool:
        return (
            work.is_ours(found)
            and found.running
            and (found.volume, found.spec_hash)
            == (
                home.volume_name,
                spec_hash,
            )
        )

    work.clear(spared=is_the_one)
    work.hold()
    work.driver.start(
        name=work.container_name,
        volume=home.volume_name,
        spec=specs.of_row(row.spec),
        label=work.label,
        spec_hash=spec_hash,
    )
    return OperationStep.OBSERVE


def stop_container(work: OperationWork) -> OperationStep:
    work.clear()
    return OperationStep.OBSERVE
