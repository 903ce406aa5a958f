"""Runs a job once: alone, reported, and without letting its failure reach anyone else."""

import enum
import os
import socket
import threading
import zlib
from dataclasses import dataclass
from datetime import datetime

import structlog
from django.db import Error, transaction

from dpp_project import clock
from dpp_project.audit import trail
from dpp_project.jobs import deadline
from dpp_project.jobs.models import JobReport
from dpp_project.jobs.registry import Job, PassReport
from dpp_project.stores import advisory_lock

log = structlog.get_logger("dpp.job")

LOCK_CLASS = 0x6A6F6273
"""First half of the advisory lock's key ("jobs"); the second is the job's name."""


class PassOutcome(enum.Enum):
    DONE = "done"
    FAILED = "failed"
    BUSY = "already running"
    UNAVAILABLE = "database away"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedPass:
    outcome: PassOutcome
    report: PassReport | None = None


def run(
    job: Job,
    *,
    limit: int | None = None,
    dry_run: bool = False,
    stopping: threading.Event | None = None,
    asked_by: str | None = None,
) -> FinishedPass:
    """One pass of `job`, its report row written. Raises nothing.

    A pass that a person asked for is entered into the audit trail as it begins; its report says what it changed.

    The pass ends at the job's deadline, or at the next row once `stopping` is set.

    Two at once, on this machine or another: the second answers BUSY and leaves no row. A crash between start and end
    leaves a row without an end, and Postgres frees the lock with the session. If the session is lost while the job
    runs, a second may start beside it: every job is safe for that.
    """
    run_once = job.preview if dry_run else job.run_once
    if run_once is None:
        raise ValueError(f"job {job.name} has no preview, so it has no dry run")
    try:
        with advisory_lock.try_lock(lock_key(job.name)) as first:
            if not first:
                return FinishedPass(outcome=PassOutcome.BUSY)
            started_at = clock.now()
            row = _begun(job, started_at, dry_run=dry_run, asked_by=asked_by)
            failed = False
            try:
                with deadline.within(seconds=job.deadline_seconds, stopping=stopping):
                    report = run_once(now=started_at, limit=limit or job.limit)
            except Exception as error:  # one job's failure is its own
                log.warning("job failed", job=job.name, exc_info=error)
                report, failed = PassReport(errors=1, detail={"error": type(error).__name__}), True
            _end(row, report)
    except Error as error:
        log.warning("job could not be reported, the database is away", job=job.name, exc_info=error)
        return FinishedPass(outcome=PassOutcome.UNAVAILABLE)
    log.info("job", job=job.name, seen=report.seen, changed=report.changed, errors=report.errors, dry_run=dry_run)
    return FinishedPass(outcome=PassOutcome.FAILED if failed else PassOutcome.DONE, report=report)


def _begun(job: Job, started_at: datetime, *, dry_run: bool, asked_by: str | None) -> JobReport:
    with transaction.atomic():
        row = JobReport.objects.create(
            job=job.name, started_at=started_at, dry_run=dry_run, host=socket.gethostname()[:128], pid=os.getpid()
        )
        if asked_by is not None and not dry_run:
            trail.record("job run", actor=asked_by, subject=f"job {job.name}", after={"report": row.pk})
    return row


def _end(row: JobReport, report: PassReport) -> None:
    JobReport.objects.filter(pk=row.pk).update(
        ended_at=max(clock.now(), row.started_at),
        seen=report.seen,
        changed=report.changed,
        errors=report.errors,
        detail=dict(report.detail),
    )


def lock_key(name: str) -> advisory_lock.Key:
    return LOCK_CLASS, zlib.crc32(name.encode()) - 2**31
