"""Collects archives that a newer verified one has replaced for two hours, and all of a purged workspace.

What protects an archive: a pin, the workspace's key, its last operation, its ERROR, a recovery that was asked for. And
nothing goes by the books alone: the newer one must lie in the bucket and be ours, or the older one stays.

The row says DELETED before the object goes, and when it went after that. A death in between leaves the row to the next
pass, which deletes the object again.
"""

from datetime import datetime, timedelta
from typing import Final

from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Concat, Now

from dpp_project.jobs.registry import PassReport
from ops.workspaces import metrics
from ops.workspaces.archive_store import configured
from ops.workspaces.archive_store.store import ArchiveStore
from ops.workspaces.models import WorkspaceArchive
from ops.workspaces.rows import archives, timeline
from ops.workspaces.states import ArchiveState
from ops.workspaces.upkeep.bucket_outages import bucket_outages_told_apart
from reaper import driver
from reaper.tally import Tally

KEPT_FOR: Final = timedelta(hours=2)
ACTOR: Final = "collector"
LOOP: Final = "workspace_gc"


class NewerIsMissing(Exception):  # noqa: N818  a finding
    """The bucket does not hold what replaced this archive, as it was read back: the older one stays, for a person."""


def collect_archives(*, now: datetime, limit: int) -> PassReport:
    """Ages go by the database's clock. An archive that S3 refuses to delete is its row's alone, and comes last."""
    del now
    tally = Tally(LOOP, limit=limit)
    tally.noted["unpinned"] = archives.unpin_ended()
    store = configured.shared_archive_store()
    dues = (archives.being_collected().order_by("pk"), archives_to_collect().select_related("workspace").order_by("pk"))
    for row in driver.rows_left_behind(tally, *dues):
        with tally.each(row.pk), bucket_outages_told_apart():
            tally.changed += _collect(store, row)
    return tally.report()


def preview_collecting_archives(*, now: datetime, limit: int) -> PassReport:
    del now
    count = min(limit, archives_to_collect()[:limit].count() + archives.being_collected()[:limit].count())
    return PassReport(seen=count, changed=count)


def archives_to_collect() -> QuerySet[WorkspaceArchive]:
    """What may go, by its row and its workspace's."""
    purged = Q(workspace__purged_at__isnull=False)
    old = Q(state=ArchiveState.SUPERSEDED, superseded_at__lte=Now() - KEPT_FOR)
    asked_for = Q(
        workspace__recover_generation__gt=F("workspace__recovered_generation"),
        workspace__recover_from=Concat(Value("archive:"), F("archive_key")),
    )
    unhealthy = Q(workspace__conditions__contains={"policy.healthy": {"status": False}})
    protected = (
        Q(workspace__archive_key=F("archive_key"))
        | Q(workspace__op_id=F("op_id"), workspace__op_id__isnull=False)
        | unhealthy
        | asked_for
    )
    rows = WorkspaceArchive.objects.exclude(state=ArchiveState.DELETED).filter(pinned_by__isnull=True)
    return rows.filter(purged | (old & ~protected))


def _collect(store: ArchiveStore, row: WorkspaceArchive) -> int:
    if row.state != ArchiveState.DELETED:
        if not _is_replaced(store, row):
            raise NewerIsMissing
        if not archives.begin_collecting(archives_to_collect(), row.pk):
            return 0
    return _delete(store, row.pk)


def _is_replaced(store: ArchiveStore, row: WorkspaceArchive) -> bool:
    """By an archive that was read back later, and that lies in the bucket as it was."""
    if row.workspace.purged_at is not None:
        return True
    newer = WorkspaceArchive.objects.filter(pk=row.workspace.archive_key, state=ArchiveState.VERIFIED).first()
    if newer is None or newer.verified_at is None or row.verified_at is None or newer.verified_at < row.verified_at:
        return False
    head = store.look(newer.pk)
    return (
        head is not None
        and head.identity is not None
        and (head.identity.token, head.object_bytes) == (newer.token, newer.object_bytes)
    )


def _delete(store: ArchiveStore, key: str) -> int:
    row = WorkspaceArchive.objects.get(pk=key)
    if row.upload_id is not None:
        store.abort_upload(key, row.upload_id)
    store.delete(key)
    if not archives.mark_archive_collected(key):
        return 0
    timeline.add_to_timeline(row.workspace_id, "ArchiveCollected", actor=ACTOR, archive_key=key)
    metrics.ARCHIVES_COLLECTED.inc()
    return 1
