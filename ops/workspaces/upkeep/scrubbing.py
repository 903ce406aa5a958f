"""Reads archives back whole, those first that were not read for the longest time: a bucket may lose or change what it
was given, and the home they are of exists nowhere else.

One that is not what was read back is QUARANTINED and told. The monitor looks anew and sees it; a person decides.
"""

from datetime import datetime
from typing import Any, Final

import structlog

from dpp_project.jobs import deadline
from dpp_project.jobs.registry import PassReport
from ops.workspaces import hints, metrics
from ops.workspaces.archive_store import configured
from ops.workspaces.archive_store.archives import ArchiveIdentity, SentArchive
from ops.workspaces.archive_store.store import ArchiveStore
from ops.workspaces.drivers.base import DriverCorrupt, DriverUnavailable
from ops.workspaces.models import WorkspaceArchive
from ops.workspaces.rows import archives, timeline, transitions

log = structlog.get_logger("dpp.workspaces")

SAMPLE: Final = 50
ACTOR: Final = "scrub"


def run_once(*, now: datetime, limit: int) -> PassReport:
    store, seen = configured.shared(), 0
    wrong: list[str] = []
    for row in archives.oldest_scrubbed(limit=min(SAMPLE, limit)):
        if deadline.is_over():
            break
        try:
            reason = _fault(store, row)
        except DriverUnavailable as error:
            log.warning("archives are not scrubbed, the bucket does not answer", error=str(error))
            return PassReport(seen=seen, changed=len(wrong), errors=1, detail={"error": "bucket away", "wrong": wrong})
        seen += 1
        archives.scrubbed(row.pk, now=now)
        if reason is not None and archives.quarantine(row.pk):
            wrong.append(row.pk)
            _tell(row, reason)
    detail: dict[str, Any] = {"wrong": wrong}
    return PassReport(seen=seen, changed=len(wrong), errors=len(wrong), detail=detail)


def preview(*, now: datetime, limit: int) -> PassReport:
    del now
    count = len(archives.oldest_scrubbed(limit=min(SAMPLE, limit)))
    return PassReport(seen=count, changed=0)


def _fault(store: ArchiveStore, row: WorkspaceArchive) -> str | None:
    if row.epoch is None or row.object_bytes is None or row.tar_bytes is None or row.sha256 is None:
        return "RowIncomplete"
    was = SentArchive(object_bytes=row.object_bytes, tar_bytes=row.tar_bytes, sha256=row.sha256)
    try:
        store.verify(row.pk, ArchiveIdentity(row.token, row.epoch), was, progress=_gets_on)
    except DriverCorrupt as error:
        return error.reason
    return None


def _gets_on(_bytes: int) -> None:
    deadline.progressed()


def _tell(row: WorkspaceArchive, reason: str) -> None:
    timeline.tell(row.workspace_id, "ArchiveCorrupted", actor=ACTOR, archive_key=row.pk, reason=reason)
    log.error("an archive is not what was read back", workspace=str(row.workspace_id), archive_key=row.pk, why=reason)
    transitions.doubt(row.workspace_id)
    metrics.VERIFY_FAILURES.inc()
    metrics.ARCHIVES_QUARANTINED.inc()
    hints.give(row.workspace_id)
