"""The only writer of archive rows: one function an edge, each one conditional UPDATE that says if it changed a row.

    UPLOADING -> VERIFIED -> SUPERSEDED -> DELETED     begun, read back whole, replaced by a newer one, collected
    UPLOADING -> DELETED                               given up; nothing lies in the bucket, or nothing that counts
    VERIFIED, SUPERSEDED, UPLOADING -> QUARANTINED     not what its row says: kept for a person
    QUARANTINED -> VERIFIED                            read back whole after all, by a recheck
    (none) -> QUARANTINED                              found in the bucket, known to no row

DELETED is committed before the object goes, `deleted_at` once it is gone: between the two no restore begins from it,
and who finds the row so deletes the object again. A pin and a collection meet at the row: the first to commit wins.
"""

import uuid
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from ops.workspaces.models import Workspace, WorkspaceArchive
from ops.workspaces.states import ArchiveState

READABLE: Final = (ArchiveState.VERIFIED, ArchiveState.SUPERSEDED)


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What an archive was found to hold, read to its end."""

    object_bytes: int
    tar_bytes: int
    members: int
    sha256: str


def begin_archive(
    archive_key: str, *, workspace_id: uuid.UUID, op_id: uuid.UUID, epoch: int, token: str
) -> WorkspaceArchive:
    """Before the first byte. Another attempt of the same operation finds the row of the one before, token and all."""
    row, _ = WorkspaceArchive.objects.get_or_create(
        archive_key=archive_key,
        defaults={"workspace_id": workspace_id, "op_id": op_id, "epoch": epoch, "token": token},
    )
    return row


def open_upload(archive_key: str, *, upload_id: str | None) -> bool:
    """None: none is open any more."""
    return _archive_row_in_state(archive_key, ArchiveState.UPLOADING).update(upload_id=upload_id) > 0


def mark_archive_verified(archive_key: str, found: ReadBack, *, now: datetime) -> bool:
    """It was read back whole. One that was verified before keeps what it was verified as."""
    fresh = WorkspaceArchive.objects.filter(
        archive_key=archive_key, state__in=[ArchiveState.UPLOADING, ArchiveState.QUARANTINED]
    )
    return (
        fresh.update(
            state=ArchiveState.VERIFIED,
            upload_id=None,
            object_bytes=found.object_bytes,
            tar_bytes=found.tar_bytes,
            members=found.members,
            sha256=found.sha256,
            verified_at=now,
            superseded_at=None,
        )
        > 0
    )


def supersede_others(workspace_id: uuid.UUID, *, by_key: str, now: datetime) -> int:
    """Once the workspace's key names a verified archive, the verified ones before it are no longer needed."""
    newest = WorkspaceArchive.objects.filter(
        archive_key=by_key, workspace_id=workspace_id, state=ArchiveState.VERIFIED
    ).first()
    if newest is None or newest.verified_at is None:
        return 0
    older = WorkspaceArchive.objects.filter(
        workspace_id=workspace_id, state=ArchiveState.VERIFIED, verified_at__lte=newest.verified_at
    ).exclude(archive_key=by_key)
    return older.update(state=ArchiveState.SUPERSEDED, superseded_at=now)


def pin_archive(archive_key: str, *, op_id: uuid.UUID) -> bool:
    """In the transaction that starts a restore. False: it is collected, unreadable, or pinned by another operation."""
    rows = WorkspaceArchive.objects.filter(
        Q(pinned_by__isnull=True) | Q(pinned_by=op_id), archive_key=archive_key, state__in=READABLE
    )
    return rows.update(pinned_by=op_id) > 0


def unpin_archives(*, op_id: uuid.UUID) -> int:
    return WorkspaceArchive.objects.filter(pinned_by=op_id).update(pinned_by=None)


def unpin_ended() -> int:
    """Pins of operations that are over: one that died between its end and its unpin would keep its archive for ever."""
    alive = Workspace.objects.filter(pk=OuterRef("workspace_id"), op_id=OuterRef("pinned_by")).exclude(operation="NONE")
    return WorkspaceArchive.objects.filter(~Exists(alive), pinned_by__isnull=False).update(pinned_by=None)


def quarantine_archive(archive_key: str) -> bool:
    """It is not what its row says."""
    rows = WorkspaceArchive.objects.filter(archive_key=archive_key, state__in=[*READABLE, ArchiveState.UPLOADING])
    return rows.update(state=ArchiveState.QUARANTINED) > 0


def take_in(archive_key: str, *, workspace_id: uuid.UUID, op_id: uuid.UUID, token: str, object_bytes: int) -> bool:
    """Found in the bucket under a key that no row knows. False: a row knows it by now."""
    _, is_new = WorkspaceArchive.objects.get_or_create(
        archive_key=archive_key,
        defaults={
            "workspace_id": workspace_id,
            "op_id": op_id,
            "token": token,
            "object_bytes": object_bytes,
            "state": ArchiveState.QUARANTINED,
        },
    )
    return is_new


def give_up(archive_key: str, *, now: datetime) -> bool:
    """An upload that its operation left, and that put nothing into the bucket."""
    rows = _archive_row_in_state(archive_key, ArchiveState.UPLOADING)
    return rows.update(state=ArchiveState.DELETED, upload_id=None, deleted_at=now) > 0


def begin_collecting(rows: QuerySet[WorkspaceArchive], archive_key: str) -> bool:
    """`rows` says what may be collected, and is asked again once the row is locked: who pinned it meanwhile is seen."""
    with transaction.atomic():
        if not WorkspaceArchive.objects.select_for_update().filter(pk=archive_key).exists():
            return False
        if not rows.filter(pk=archive_key, pinned_by__isnull=True).exists():
            return False
        return WorkspaceArchive.objects.filter(pk=archive_key).update(state=ArchiveState.DELETED) > 0


def being_collected() -> QuerySet[WorkspaceArchive]:
    """Their objects may still be there."""
    return WorkspaceArchive.objects.filter(state=ArchiveState.DELETED, deleted_at__isnull=True)


def mark_archive_collected(archive_key: str) -> bool:
    return being_collected().filter(archive_key=archive_key).update(deleted_at=Now()) > 0


def mark_archive_scrubbed(archive_key: str, *, now: datetime) -> None:
    WorkspaceArchive.objects.filter(archive_key=archive_key).update(scrubbed_at=now)


def oldest_scrubbed(*, limit: int, last: Collection[Hashable] = ()) -> list[WorkspaceArchive]:
    """Those not read back for the longest time, the never read ones first; those of `last` after the others."""
    rows = WorkspaceArchive.objects.filter(state__in=READABLE).order_by(
        F("scrubbed_at").asc(nulls_first=True), "verified_at", "archive_key"
    )
    keys = [str(key) for key in last]
    first = list(rows.exclude(pk__in=keys)[:limit])
    return first + list(rows.filter(pk__in=keys)[: limit - len(first)])


def _archive_row_in_state(archive_key: str, state: ArchiveState) -> QuerySet[WorkspaceArchive]:
    return WorkspaceArchive.objects.filter(archive_key=archive_key, state=state)
