"""PROVISIONING and RESTORING: a volume for each attempt, and the home from the moment that it is whole.

| dies | is left | repaired by |
|---|---|---|
| after the row, before the volume | a FILLING row | the next attempt dooms it and takes a volume of its own |
| while it is filled | a volume that nobody reads | the same; SWEEP deletes it, or the orphan job |
| after the import, before LIVE | a whole volume, not the home | filled again, into another |
| after LIVE | the home, with its marker | any attempt goes on |

An import that was given up goes on into its own volume, which nobody reads.
"""

from collections.abc import Iterator

import structlog

from ops.workspaces import naming
from ops.workspaces.archive_store.archives import VerifiedArchive
from ops.workspaces.drivers.base import DriverCorrupt, DriverNoSpace, DriverRefused, DriverUnavailable, VerbAnswer
from ops.workspaces.models import Workspace, WorkspaceArchive, WorkspaceDriver
from ops.workspaces.operations.containers import marker_of
from ops.workspaces.operations.work import DatabaseBehind, OperationWork
from ops.workspaces.rows import archives, transitions, volumes
from ops.workspaces.rows.writing import writing_as
from ops.workspaces.states import ArchiveState, Operation, OperationStep, Writer

log = structlog.get_logger("dpp.workspaces")


def survey_archives(work: OperationWork) -> OperationStep:
    """Before anything is made: what is newest may be unknown to us, and would be lost behind what we make."""
    row = work.row()
    if not row.home_ctx.get("decided"):  # by a person, who has read what is unknown
        _ask_bucket(work, row)
    return OperationStep.FILL


def _ask_bucket(work: OperationWork, row: Workspace) -> None:
    known = dict(WorkspaceArchive.objects.filter(workspace_id=row.pk).values_list("archive_key", "state"))
    has_archives = bool(set(known.values()) & set(archives.READABLE))
    if work.claim.operation is Operation.PROVISIONING and has_archives and not row.home_ctx.get("begins_empty"):
        raise DatabaseBehind("it has archives, and is to begin empty: recover it from one of them")
    listed = work.store.list_archives(naming.archive_prefix(row.pk))
    # By the bucket's own clock alone.
    ours_at = next((one.written_at for one in listed if one.key == row.archive_key), None)
    unknown = [one for one in listed if known.get(one.key, ArchiveState.QUARANTINED) == ArchiveState.QUARANTINED]
    newer = sorted(one.key for one in unknown if ours_at is None or one.written_at >= ours_at)
    if newer:
        raise DatabaseBehind(f"the bucket holds archives that are newer and unknown here: {', '.join(newer[:5])}")


def _ask_driver(work: OperationWork) -> None:
    listing = work.driver.list()
    sentinel = WorkspaceDriver.objects.get(pk=work.claim.driver_id).sentinel
    if listing.sentinel != str(sentinel):
        raise DriverUnavailable("the list of volumes is of another disk")
    workspace_id = str(work.claim.workspace_id)
    ours = [one.name for one in listing.volumes if one.label is not None and one.label.workspace_id == workspace_id]
    unknown = sorted(set(ours) - set(volumes.volume_states(ours)))
    unknown += [name for name, starts in volumes.never_home(ours).items() if _is_used_since(work, name, starts)]
    if unknown:
        raise DatabaseBehind(f"the driver holds volumes that are unknown here: {', '.join(unknown[:5])}")


def _is_used_since(work: OperationWork, name: str, starts: int | None) -> bool:
    seen = work.driver.look_volume(name)
    return seen is not None and starts is not None and (seen.starts or 0) > starts


def fill_volume(work: OperationWork) -> OperationStep | None:
    row = work.row()
    if not row.home_ctx.get("decided"):  # behind the survey, where a restored database may begin
        _ask_driver(work)
    archive = None
    if work.claim.operation is Operation.RESTORING:
        archive = WorkspaceArchive.objects.get(pk=row.archive_key)
        _find_room(work, archive)
    with writing_as(Writer.RECONCILER):
        work.hold()
        volume = volumes.prepare_volume(
            row.pk,
            driver_id=work.claim.driver_id,
            op_id=work.claim.op_id,
            attempt=work.claim.attempt,
            filled_from=None if archive is None else archive.archive_key,
        )
    work.driver.ensure_volume(volume.volume_name, work.label)
    if archive is not None:
        work.hold()
        with work.holding():
            work.driver.import_(volume.volume_name, _chunks_filling_volume(work, archive))
    context = {"volume": volume.volume_name, "epoch": volume.epoch, "restore_marker": marker_of(volume)}
    with writing_as(Writer.RECONCILER):
        work.advance(OperationStep.SWEEP, home_ctx=context)
        if not volumes.make_live(volume.volume_name):
            raise transitions.ClaimLost
    return None


def _find_room(work: OperationWork, archive: WorkspaceArchive) -> None:
    free = work.driver.free_bytes()
    if archive.tar_bytes is not None and free < archive.tar_bytes:
        raise DriverNoSpace(f"{archive.tar_bytes} bytes are to be restored, {free} are free")


def _chunks_filling_volume(work: OperationWork, archive: WorkspaceArchive) -> Iterator[bytes]:
    done = 0
    for chunk in work.store.read(archive.archive_key, verified_archive(archive)):
        done += len(chunk)
        work.progress(done)
        yield chunk


def verified_archive(archive: WorkspaceArchive) -> VerifiedArchive:
    found = (archive.object_bytes, archive.tar_bytes, archive.members, archive.sha256)
    object_bytes, tar_bytes, members, sha256 = found
    if object_bytes is None or tar_bytes is None or members is None or sha256 is None:
        raise DriverCorrupt(f"{archive.archive_key} was never read back", reason="ArchiveCorrupted")
    return VerifiedArchive(object_bytes=object_bytes, tar_bytes=tar_bytes, members=members, sha256=sha256)


def sweep_doomed_volumes(work: OperationWork) -> OperationStep:
    """Volumes of attempts that were given up. One that is in use is left to the orphan job."""
    for name, starts in volumes.doomed_volumes(work.claim.workspace_id).items():
        work.hold()
        try:
            if work.driver.delete_volume(name, starts=starts) is not VerbAnswer.IN_USE:
                volumes.mark_volume_gone(name)
        except DriverRefused as refused:
            if refused.reason != "UsedSince":
                raise
            log.warning("a volume was used since it was given up, and is kept", volume=name)
    return OperationStep.OBSERVE
