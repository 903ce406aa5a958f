"""ARCHIVING: the home goes into the bucket, is read back, and only then goes from the disk.

| dies | is left | repaired by |
|---|---|---|
| at the fence | a container less, or a placeholder | the next attempt: both looks and verbs come again |
| while it uploads | an open upload, or a whole object | the next attempt uploads, or finds it by token and epoch |
| after the upload, before the key is saved | an object that our row calls UPLOADING | it is read back and saved |
| after the key is saved, before DOOMED | home and archive, both whole | goes on, or is abandoned |
| after DOOMED, before or after the deletion | a dead volume, or none | it is deleted again: gone is as good |
| after the deletion | a placeholder | removed by the next attempt |

Until DOOMED is committed the tenant may have the workspace back, and it is as it was. After that there is no way back
but a restore.
"""

import uuid
from collections.abc import Callable
from typing import Final

from ops.workspaces import naming, planning
from ops.workspaces.archive_store.archives import ArchiveIdentity
from ops.workspaces.drivers.base import DriverCorrupt, DriverRefused, VerbAnswer
from ops.workspaces.models import Workspace, WorkspaceArchive, WorkspaceVolume
from ops.workspaces.operations.work import OperationWork
from ops.workspaces.planning import Ending
from ops.workspaces.rows import archives, transitions, volumes
from ops.workspaces.rows.archives import ReadBack
from ops.workspaces.rows.writing import writing_as
from ops.workspaces.states import ArchiveState, DesiredState, OperationStep, VolumeState, Writer

UP: Final = frozenset({DesiredState.RUNNING, DesiredState.STANDBY})


def fence_workspace(work: OperationWork) -> OperationStep:
    """Nothing runs, nothing can be started under the name, and nobody uses the volume."""
    row = work.row()
    home = home_of(row)
    if _is_taken_back(row, home):
        return OperationStep.ABANDON
    work.clear(spared=work.is_own_placeholder)
    work.hold()
    if work.driver.place_placeholder(name=work.container_name, label=work.label) is VerbAnswer.IN_USE:
        raise DriverRefused("a container was started while it was to be archived", reason="NameTaken")
    _assert_unused(work, home)
    return OperationStep.UPLOAD


def upload_archive(work: OperationWork) -> OperationStep:
    row = work.row()
    home = home_of(row)
    if _is_taken_back(row, home):
        return OperationStep.ABANDON
    key = _archive_key_of_work(work)
    with writing_as(Writer.RECONCILER):
        work.hold()
        archive = archives.begin_archive(
            key, workspace_id=row.pk, op_id=work.claim.op_id, epoch=home.epoch, token=uuid.uuid4().hex
        )
    identity = identity_of(archive)
    found = work.store.look(key)
    if found is None:
        with work.holding():
            work.sent = work.store.upload(
                key,
                identity,
                work.driver.export(home.volume_name),
                opened=_opened_upload_callback(work),
                progress=work.progress,
            )
    elif found.identity != identity:
        raise DriverCorrupt(f"another object lies at {key}", reason="KeyTaken")
    return OperationStep.VERIFY


def verify_archive(work: OperationWork) -> OperationStep | None:
    row = work.row()
    if _is_taken_back(row, home_of(row)):
        return OperationStep.ABANDON
    key = _archive_key_of_work(work)
    archive = WorkspaceArchive.objects.get(pk=key)
    found = work.store.verify(key, identity_of(archive), work.sent, progress=work.progress)
    with writing_as(Writer.RECONCILER):
        work.advance(OperationStep.SEE_ARCHIVE, archive_key=key)
        archives.mark_archive_verified(
            key,
            ReadBack(
                object_bytes=found.object_bytes, tar_bytes=found.tar_bytes, members=found.members, sha256=found.sha256
            ),
            now=transitions.database_now(),
        )
        if not WorkspaceArchive.objects.filter(pk=key, state=ArchiveState.VERIFIED).exists():
            raise DriverCorrupt(f"{key} was collected before it was read back", reason="ArchiveNotFound")
    return None


def see_archive(work: OperationWork) -> OperationStep | None:
    """The monitor has seen it where the row says. The last moment at which the wish is asked."""
    row = work.row()
    home = home_of(row)
    if _is_taken_back(row, home):
        return OperationStep.ABANDON
    match planning.archive_ending(work.seen(row), is_fresh=row.observed_rev >= row.rev):
        case Ending.WAIT:
            transitions.park_operation(work.claim)
            return None
        case Ending.COMPLETE:
            pass
        case _:
            raise DriverCorrupt(f"{row.archive_key} was written and is not to be read", reason="ArchiveCorrupted")
    if not work.is_own_placeholder(work.driver.look_container(work.container_name)):
        raise DriverRefused("its name was not held while it was archived", reason="FenceBroken")
    _assert_unused(work, home)
    starts = _starts(work, home)
    with writing_as(Writer.RECONCILER):
        work.advance(OperationStep.DELETE)
        if not volumes.doom_volume(home.volume_name, starts=starts):
            raise transitions.ClaimLost
        archives.supersede_others(row.pk, by_key=_archive_key_of_work(work), now=transitions.database_now())
    return None


def delete_archived_volume(work: OperationWork) -> OperationStep | None:
    row = work.row()
    home = home_of(row)
    work.hold()
    if _is_in_use(work, home):
        # Its user may have written: not tried again, but archived again, by another operation.
        transitions.fail_operation(
            work.claim, reason="VolumeInUse", message="something uses the home that was archived", ends=True
        )
        return None
    with writing_as(Writer.RECONCILER):
        work.advance(OperationStep.RELEASE)
        volumes.mark_volume_gone(home.volume_name)
    return None


def release_volume_name(work: OperationWork) -> OperationStep:
    """The dead volume is gone: until then nothing may be started under the name."""
    _free_name(work)
    return OperationStep.OBSERVE


def abandon_archiving(work: OperationWork) -> None:
    """The home is live, and the name is free again."""
    _free_name(work)
    transitions.abandon_operation(work.claim)


def home_of(row: Workspace) -> WorkspaceVolume:
    """The live volume; or the one that was archived, and could not be deleted because something used it."""
    if (live := volumes.live_volume(row.pk)) is not None:
        return live
    found = WorkspaceVolume.objects.filter(pk=row.home_ctx.get("volume"), workspace_id=row.pk).first()
    if found is None:
        raise DriverRefused("it has no home to archive", reason="NoVolume")
    return found


def identity_of(archive: WorkspaceArchive) -> ArchiveIdentity:
    return ArchiveIdentity(archive.token, archive.epoch or 0)


def _free_name(work: OperationWork) -> None:
    """Gone is as good, and so is what another one has put there."""
    found = work.driver.look_container(work.container_name)
    if found is not None and work.is_own_placeholder(found):
        work.remove(found)


def _is_taken_back(row: Workspace, home: WorkspaceVolume) -> bool:
    return row.desired_state in UP and home.state == VolumeState.LIVE


def _is_in_use(work: OperationWork, home: WorkspaceVolume) -> bool:
    """Or was, since it was archived."""
    try:
        return work.driver.delete_volume(home.volume_name, starts=home.starts) is VerbAnswer.IN_USE
    except DriverRefused as refused:
        if refused.reason == "UsedSince":
            return True
        raise


def _starts(work: OperationWork, home: WorkspaceVolume) -> int:
    seen = work.driver.look_volume(home.volume_name)
    if seen is None:
        raise DriverRefused(f"{home.volume_name} is not there", reason="VolumeMissing")
    return seen.starts or 0


def _assert_unused(work: OperationWork, home: WorkspaceVolume) -> None:
    if users := work.driver.users_of(home.volume_name):
        raise DriverRefused(f"{len(users)} containers use the home", reason="VolumeInUse")


def _archive_key_of_work(work: OperationWork) -> str:
    return naming.archive_key(work.claim.workspace_id, op_id=work.claim.op_id)


def _opened_upload_callback(work: OperationWork) -> Callable[[str], None]:
    def opened(upload_id: str) -> None:
        work.hold()
        archives.open_upload(_archive_key_of_work(work), upload_id=upload_id)

    return opened
