"""Collects archives that a newer verified one has replaced for two hours, and all of a purged workspace.

What protects an archive: a pin, the workspace's key, its last operation, its ERROR, a recovery that was asked for. And
nothing goes by the books alone: the newer one must lie in the bucket and be ours, or the older one stays.

The row says DELETED before the object goes, and when it went after that. A death in between leaves the row to the next
pass, which deletes the object again.
"""

from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Concat, Now

from dpp_project.jobs import deadline
from dpp_project.jobs.registry import PassReport
from ops.workspaces import metrics
from ops.workspaces.archive_store import configured
from ops.workspaces.archive_store.store import ArchiveStore
from ops.workspaces.drivers.base import DriverUnavailable
from ops.workspaces.models import WorkspaceArchive
from ops.workspaces.rows import archives, timeline
from ops.workspaces.states import ArchiveState

log = structlog.get_logger("dpp.workspaces")

KEPT_FOR: Final = timedelta(hours=2)
AT_ONCE: Final = 500
ACTOR: Final = "collector"


def run_once(*, now: datetime, limit: int) -> PassReport:
    """Ages go by the database's clock."""
    del now
    unpinned = archives.unpin_ended()
    store, seen, changed, kept = configured.shared(), 0, 0, []
    try:
        for key in _begun(limit):
            seen += 1
            changed += _delete(store, key)
        for row in list(due().select_related("workspace").order_by("superseded_at")[: min(AT_ONCE, limit)]):
            if deadline.is_over():
                break
            seen += 1
            if not _is_replaced(store, row):
                kept.append(row.pk)
            elif archives.begin_collecting(due(), row.pk):
                changed += _delete(store, row.pk)
    except DriverUnavailable as error:
        log.warning("archives are not collected, the bucket does not answer", error=str(error))
        return PassReport(seen=seen, changed=changed, errors=1, detail={"error": "bucket away"})
    detail: dict[str, Any] = {"unpinned": unpinned, "kept_newer_is_missing": kept[:20]}
    return PassReport(seen=seen, changed=changed, errors=len(kept), detail=detail)


def preview(*, now: datetime, limit: int) -> PassReport:
    del now
    count = min(limit, due()[:AT_ONCE].count() + archives.being_collected()[:AT_ONCE].count())
    return PassReport(seen=count, changed=count)


def due() -> QuerySet[WorkspaceArchive]:
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


def _begun(limit: int) -> list[str]:
    rows = archives.being_collected().order_by("archive_key")
    return list(rows.values_list("archive_key", flat=True)[: min(AT_ONCE, limit)])


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
    if not archives.collected(key):
        return 0
    timeline.tell(row.workspace_id, "ArchiveCollected", actor=ACTOR, archive_key=key)
    metrics.ARCHIVES_COLLECTED.inc()
    return 1
