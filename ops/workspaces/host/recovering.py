"""What a person asks for, for a workspace that is in ERROR: consumed once, granted or refused, and told.

    recheck          what failed is forgotten; an archive is read back whole first, a lost marker set anew from one
    archive:{key}    this archive is the workspace's from now on; one that no row knows is read back and taken in
    empty            it begins anew; its archives stay

A home that is there is never given up for an archive or for nothing: archive or delete it instead.
"""

from typing import Final

import structlog

from ops.workspaces import naming
from ops.workspaces.archive_port import ArchivePort
from ops.workspaces.conditions import ConditionReason, Conditions
from ops.workspaces.drivers.base import DriverCorrupt, DriverUnavailable
from ops.workspaces.models import Workspace, WorkspaceArchive
from ops.workspaces.operations.archiving import identity_of
from ops.workspaces.operations.containers import container_lacks_marker, marker_of
from ops.workspaces.operations.work import DatabaseBehind
from ops.workspaces.rows import archives, transitions, volumes
from ops.workspaces.rows.archives import ReadBack
from ops.workspaces.rows.writing import writing_as
from ops.workspaces.states import ArchiveState, Writer

log = structlog.get_logger("dpp.workspaces")

ARCHIVE: Final = "archive:"


def recover_seen_workspace(row: Workspace, store: ArchivePort, *, kind: str) -> None:
    """By what is seen now; asked again later where that is not known, or the bucket is away."""
    wish, seen = row.recover_from or "", Conditions.stored(row.conditions, kind=kind)
    if row.observed_rev < row.rev or seen.volume.stale:
        return
    try:
        if wish == "recheck":
            _recheck(row, store)
        elif _home_is_there(seen):
            _refuse_workspace_recovery(row, "its home is there")
        elif wish == "empty":
            with writing_as(Writer.RECONCILER):
                context = {"begins_empty": True} | _decided(row)
                if transitions.end_recovery(row, outcome=wish, archive_key=None, home_ctx=context):
                    volumes.mark_volumes_lost(row.pk)
        elif wish.startswith(ARCHIVE):
            _from_archive(row, wish.removeprefix(ARCHIVE), store)
        else:
            _refuse_workspace_recovery(row, "there is no such way")
    except DriverUnavailable as error:
        log.info("a recovery waits", workspace=str(row.pk), error=str(error))


def _decided(row: Workspace) -> dict[str, bool]:
    """A person who has read what no row knows, and asks for this all the same, is not stopped by the next survey."""
    told = (row.error_info or {}).get("reason") == DatabaseBehind.reason
    return {"decided": True} if told else {}


def _home_is_there(seen: Conditions) -> bool:
    """The live one; or the one that something used when it was to be deleted, which is archived again first."""
    return seen.volume.status or seen.volume.reason == ConditionReason.HOME_DOOMED


def _recheck(row: Workspace, store: ArchivePort) -> None:
    home = volumes.live_volume(row.pk)
    changes = {}
    if home is not None and container_lacks_marker(row, home):
        if not WorkspaceArchive.objects.filter(pk=home.filled_from, state__in=archives.READABLE).exists():
            _refuse_workspace_recovery(row, "the archive that it was filled from was never read back")
            return
        changes["home_ctx"] = row.home_ctx | {"restore_marker": marker_of(home)}
    if home is None and row.archive_key is not None and not _reads_back(row.archive_key, row, store):
        return
    transitions.end_recovery(row, outcome="recheck", **changes)


def _from_archive(row: Workspace, key: str, store: ArchivePort) -> None:
    if not _reads_back(key, row, store):
        return
    with writing_as(Writer.RECONCILER):
        if not transitions.end_recovery(row, outcome=f"{ARCHIVE}{key}", archive_key=key, home_ctx=_decided(row)):
            return
        volumes.mark_volumes_lost(row.pk)
        # It is protected as the newest; what was the newest before is kept for a person.
        if row.archive_key is not None and row.archive_key != key:
            archives.quarantine_archive(row.archive_key)
        WorkspaceArchive.objects.filter(pk=key, state=ArchiveState.SUPERSEDED).update(
            state=ArchiveState.VERIFIED, superseded_at=None
        )


def _reads_back(key: str, row: Workspace, store: ArchivePort) -> bool:
    """Whole, by its row; one without a row gets one, if its name says that it is this workspace's."""
    named = naming.read_archive_key(key)
    if named is None or named.workspace_id != row.pk:
        _refuse_workspace_recovery(row, f"{key} is not an archive of this workspace")
        return False
    archive = WorkspaceArchive.objects.filter(pk=key, workspace_id=row.pk).first()
    if archive is None or archive.state == ArchiveState.QUARANTINED:
        head = store.look(key)
        if head is None or head.identity is None:
            _refuse_workspace_recovery(row, f"{key} is not there, or not ours")
            return False
        if archive is None:
            archive = archives.begin_archive(
                key,
                workspace_id=row.pk,
                op_id=named.op_id,
                epoch=head.identity.epoch,
                token=head.identity.token,
            )
    if archive.state == ArchiveState.DELETED:
        _refuse_workspace_recovery(row, f"{key} was deleted")
        return False
    try:
        found = store.verify(key, identity_of(archive), None, progress=_no_lease)
    except DriverCorrupt as error:
        _refuse_workspace_recovery(row, str(error))
        return False
    read_back = ReadBack(
        object_bytes=found.object_bytes, tar_bytes=found.tar_bytes, members=found.members, sha256=found.sha256
    )
    archives.mark_archive_verified(key, read_back, now=transitions.database_now())
    archives.mark_archive_scrubbed(key, now=transitions.database_now())
    return True


def _no_lease(_bytes: int) -> None:
    """Nothing is held while it is read."""


def _refuse_workspace_recovery(row: Workspace, outcome: str) -> None:
    transitions.end_recovery(row, outcome=outcome, is_granted=False)
