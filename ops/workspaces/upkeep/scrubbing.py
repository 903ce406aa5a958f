"""Reads archives back whole, those first that were not read for the longest time: a bucket may lose or change what it
was given, and the home they are of exists nowhere else.

One that is not what was read back is QUARANTINED and told. The monitor looks anew and sees it; a person decides. One
that S3 refuses to give is skipped and shown, and comes last in the next pass.
"""

from dataclasses import replace
from datetime import datetime
from typing import Final

import structlog

from dpp_project.jobs import deadline
from dpp_project.jobs.registry import PassReport
from ops.workspaces import hints, metrics
from ops.workspaces.archive_store import configured
from ops.workspaces.archive_store.archives import ArchiveIdentity, SentArchive
from ops.workspaces.archive_store.store import ArchiveStore
from ops.workspaces.drivers.base import DriverCorrupt
from ops.workspaces.models import WorkspaceArchive
from ops.workspaces.rows import archives, timeline, transitions
from ops.workspaces.upkeep.bucket_outages import bucket_outages_told_apart
from reaper.tally import Tally

log = structlog.get_logger("dpp.workspaces")

SAMPLE: Final = 50
ACTOR: Final = "scrub"
LOOP: Final = "workspace_scrub"


def scrub_archives(*, now: datetime, limit: int) -> PassReport:
    tally, store = Tally(LOOP, limit=limit), configured.shared_archive_store()
    wrong: list[str] = []
    for row in archives.oldest_scrubbed(limit=min(SAMPLE, limit), last=tally.failed_before()):
        if tally.s3_is_away or not tally.goes_on():
            break
        with tally.each(row.pk), bucket_outages_told_apart():
            reason = _scrubbed_archive_fault(store, row)
            archives.mark_archive_scrubbed(row.pk, now=now)
            if reason is not None and archives.quarantine_archive(row.pk):
                wrong.append(row.pk)
                _tell_of_corrupted_archive(row, reason)
    tally.changed = len(wrong)
    tally.errors += len(wrong)
    report = tally.report()
    return replace(report, detail={**report.detail, "wrong": wrong})


def preview_scrubbing_archives(*, now: datetime, limit: int) -> PassReport:
    del now
    count = len(archives.oldest_scrubbed(limit=min(SAMPLE, limit)))
    return PassReport(seen=count, changed=0)


def _scrubbed_archive_fault(store: ArchiveStore, row: WorkspaceArchive) -> str | None:
    if row.epoch is None or row.object_bytes is None or row.tar_bytes is None or row.sha256 is None:
        return "RowIncomplete"
    was = SentArchive(object_bytes=row.object_bytes, tar_bytes=row.tar_bytes, sha256=row.sha256)
    try:
        store.verify(row.pk, ArchiveIdentity(row.token, row.epoch), was, progress=_gets_on)
    except DriverCorrupt as error:
        return error.reason
    return None


def _gets_on(_bytes: int) -> None:
    deadline.pass_progressed()


def _tell_of_corrupted_archive(row: WorkspaceArchive, reason: str) -> None:
    timeline.add_to_timeline(row.workspace_id, "ArchiveCorrupted", actor=ACTOR, archive_key=row.pk, reason=reason)
    log.error("an archive is not what was read back", workspace=str(row.workspace_id), archive_key=row.pk, why=reason)
    transitions.doubt_workspace(row.workspace_id)
    metrics.VERIFY_FAILURES.inc()
    metrics.ARCHIVES_QUARANTINED.inc()
    hints.give_hint(row.workspace_id)
