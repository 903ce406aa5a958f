"""Looks for what lies in the bucket of archives and in no row, and for rows whose upload was left.

A key that no row knows is kept and told: it may be newer than these rows, which were then restored from a backup. It
is taken in as QUARANTINED where its workspace is known, so that a person may recover from it. Only what a row calls
dead is deleted here, and only if it was written before it was called so.

An archive that was missed once, and lies in the bucket as it was, is looked at anew: a bucket may say once that it has
nothing there, and its workspace would be in ERROR for good.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db.models import F, Q, QuerySet

from dpp_project.jobs.registry import PassReport
from ops.workspaces import hints, metrics, naming
from ops.workspaces.archive_store import configured
from ops.workspaces.archive_store.archives import ListedArchive, OpenUpload
from ops.workspaces.archive_store.store import ArchiveStore
from ops.workspaces.conditions import ARCHIVE_READY
from ops.workspaces.models import Workspace, WorkspaceArchive
from ops.workspaces.rows import archives, timeline, transitions
from ops.workspaces.states import ArchiveState, Operation
from ops.workspaces.upkeep.bucket_outages import bucket_outages_told_apart
from reaper import driver
from reaper.tally import Tally

log = structlog.get_logger("dpp.workspaces")

UPLOAD_LEFT_FOR: Final = timedelta(hours=1)
"""An upload of an operation that is over; its attempt may still be putting parts."""
UPLOAD_UNKNOWN_FOR: Final = timedelta(hours=24)
"""One that no row knows."""
TOLD_MAX: Final = 20
AT_ONCE: Final = 1_000
ACTOR: Final = "orphans"
LOOP: Final = "workspace_orphans"


@dataclass
class _Found:
    aborted: int = 0
    quarantined: int = 0
    given_up: int = 0
    deleted: int = 0
    seen_again: int = 0
    unknown: list[str] = field(default_factory=list)
    """Of no workspace that there is, or not named as archives are."""
    newer: list[str] = field(default_factory=list)
    """Written after its row was called dead."""

    def detail(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            name: getattr(self, name) for name in ("aborted", "quarantined", "given_up", "deleted", "seen_again")
        }
        return facts | {"unknown": self.unknown[:TOLD_MAX], "newer_than_its_row": self.newer[:TOLD_MAX]}


def look_for_orphans(*, now: datetime, limit: int) -> PassReport:
    """What is listed is compared with rows read after it: an upload's row is older than its first byte.

    What S3 refuses is that row's alone. Rows that failed before come last, as in the driver of the other loops.
    """
    del limit
    tally, store, found = Tally(LOOP), configured.shared_archive_store(), _Found()
    listed: _Listed | None = None  # where the bucket is away, or gives no list, nothing is judged by half of one
    with tally.each("the lists", seen=0), bucket_outages_told_apart():
        listed = _Listed(store.list_uploads(), store.list_archives(""))
    if listed is not None:
        failed = frozenset(tally.failed_before())
        _look_again(tally, listed.objects, found)
        for upload in sorted(listed.uploads, key=lambda one: one.upload_id in failed):
            if _is_over(tally):
                break
            with tally.each(upload.upload_id), bucket_outages_told_apart():
                _judge_upload(store, upload, found, now=now)
        objects = sorted(listed.objects, key=lambda one: one.key in failed)
        for start in range(0, len(objects), AT_ONCE):
            _judge_objects(tally, store, objects[start : start + AT_ONCE], found, now=now)
        _judge_left(tally, store, {one.key for one in objects}, found, now=now)
        metrics.ORPHANS.set(len(found.unknown) + len(found.newer))
    if found.unknown or found.newer:
        log.warning("the bucket of archives holds what no row accounts for", **found.detail())
    tally.changed = found.aborted + found.quarantined + found.given_up + found.deleted + found.seen_again
    tally.errors += len(found.unknown) + len(found.newer)
    report = tally.report()
    return replace(report, detail={**found.detail(), **report.detail})


@dataclass(frozen=True, slots=True)
class _Listed:
    uploads: list[OpenUpload]
    objects: list[ListedArchive]


def _is_over(tally: Tally) -> bool:
    return tally.s3_is_away or not tally.goes_on()


def _judge_upload(store: ArchiveStore, upload: OpenUpload, found: _Found, *, now: datetime) -> None:
    row = WorkspaceArchive.objects.filter(pk=upload.key).first()
    age = now - upload.begun_at
    if row is None:
        is_dead = age >= UPLOAD_UNKNOWN_FOR
    else:
        is_dead = age >= UPLOAD_LEFT_FOR and not _under_way().filter(pk=row.pk).exists()
    if is_dead:
        found.aborted += store.abort_upload(upload.key, upload.upload_id)


def _judge_objects(
    tally: Tally, store: ArchiveStore, some: list[ListedArchive], found: _Found, *, now: datetime
) -> None:
    rows = WorkspaceArchive.objects.in_bulk([one.key for one in some])
    for one in some:
        if _is_over(tally):
            return
        with tally.each(one.key), bucket_outages_told_apart():
            _judge_object(store, one, rows.get(one.key), found, now=now)


def _judge_object(
    store: ArchiveStore, one: ListedArchive, row: WorkspaceArchive | None, found: _Found, *, now: datetime
) -> None:
    if row is None:
        _take_in(store, one, found)
    elif row.state == ArchiveState.DELETED and row.deleted_at is not None:
        if one.written_at > row.deleted_at:
            found.newer.append(one.key)
        else:
            store.delete(one.key)
            found.deleted += 1
    elif _is_left(row, one, now=now) and archives.quarantine_archive(row.pk):
        _tell_of_quarantined_archive(row, found)


def _is_left(row: WorkspaceArchive, one: ListedArchive, *, now: datetime) -> bool:
    """Written whole and never read back, and its operation is over."""
    if row.state != ArchiveState.UPLOADING or now - one.written_at < UPLOAD_LEFT_FOR:
        return False
    return not _under_way().filter(pk=row.pk).exists()


def _take_in(store: ArchiveStore, one: ListedArchive, found: _Found) -> None:
    named = naming.read_archive_key(one.key)
    workspace = None if named is None else Workspace.objects.filter(pk=named.workspace_id).first()
    if named is None or workspace is None:
        found.unknown.append(one.key)
        return
    head = store.look(one.key)
    if head is None:
        return
    token = "" if head.identity is None else head.identity.token
    if archives.take_in(
        one.key, workspace_id=workspace.pk, op_id=named.op_id, token=token, object_bytes=head.object_bytes
    ):
        _tell_of_quarantined_archive(WorkspaceArchive.objects.get(pk=one.key), found)


def _tell_of_quarantined_archive(row: WorkspaceArchive, found: _Found) -> None:
    timeline.add_to_timeline(row.workspace_id, "ArchiveQuarantined", actor=ACTOR, archive_key=row.pk)
    log.warning("an archive was quarantined", workspace=str(row.workspace_id), archive_key=row.pk)
    metrics.ARCHIVES_QUARANTINED.inc()
    found.quarantined += 1


def _judge_left(tally: Tally, store: ArchiveStore, keys: set[str], found: _Found, *, now: datetime) -> None:
    """Rows of uploads that put nothing there, and whose operation is over."""
    left = WorkspaceArchive.objects.filter(state=ArchiveState.UPLOADING, created_at__lt=now - UPLOAD_LEFT_FOR)
    for row in driver.rows_left_behind(tally, left.exclude(pk__in=_under_way().values("pk")).order_by("created_at")):
        with tally.each(row.pk), bucket_outages_told_apart():
            if row.pk in keys or store.look(row.pk) is not None:
                continue
            if row.upload_id is not None:
                found.aborted += store.abort_upload(row.pk, row.upload_id)
            found.given_up += archives.give_up(row.pk, now=now)


def _look_again(tally: Tally, objects: list[ListedArchive], found: _Found) -> None:
    """The monitor asks for an archive when something was done to its workspace, and not for one that it missed."""
    missed = Workspace.objects.filter(purged_at__isnull=True, archive_key__isnull=False, operation=Operation.NONE)
    missed = missed.filter(conditions__contains={ARCHIVE_READY: {"status": False}})
    sizes = {one.key: one.object_bytes for one in objects}
    for workspace in driver.rows_left_behind(tally, missed.order_by("pk"), without_s3=1):
        with tally.each(workspace.pk):
            row = WorkspaceArchive.objects.filter(pk=workspace.archive_key, state__in=archives.READABLE).first()
            if row is not None and sizes.get(row.pk) == row.object_bytes and transitions.doubt_workspace(workspace.pk):
                found.seen_again += 1
                hints.give_hint(workspace.pk)


def _under_way() -> QuerySet[WorkspaceArchive]:
    at_work = Q(workspace__op_id=F("op_id")) & ~Q(workspace__operation=Operation.NONE)
    return WorkspaceArchive.objects.filter(at_work)
