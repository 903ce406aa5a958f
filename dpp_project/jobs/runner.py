"""Runs a job once: alone, reported, and without letting its failure reach anyone else."""

import enum
from dataclasses import dataclass
from datetime import datetime

import structlog
from django.db import Error, connection, transaction

from dpp_project import clock
from dpp_project.audit import trail
from dpp_project.jobs import deadline, leases
from dpp_project.jobs.deadline import Pass
from dpp_project.jobs.models import JobReport
from dpp_project.jobs.registry import Job, PassReport

log = structlog.get_logger("dpp.job")


class PassOutcome(enum.Enum):
    DONE = "done"
    FAILED = "failed"
    BUSY = "already running"
    UNAVAILABLE = "database away"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedPass:
    outcome: PassOutcome
    report: PassReport | None = None


def run_job_pass(
    job: Job,
    *,
    limit: int | None = None,
    dry_run: bool = False,
    running: Pass | None = None,
    asked_by: str | None = None,
) -> FinishedPass:
    """One pass of `job`, its report row written. Raises nothing.

    `running` says when the pass ends: at the job's deadline where nothing is given. A pass that a person asked for is
    entered into the audit trail as it begins; its report says what it changed.

    Two at once, on this machine or another: the second answers BUSY and leaves no row. A process that dies or freezes
    in between, and a pass that hangs, leave a row without an end, and the job to another within LEASE_SECONDS. If the
    lease is lost while the job runs on, a second may start beside it: every job is safe for that.
    """
    run_once = job.preview if dry_run else job.run_once
    if run_once is None:
        raise ValueError(f"job {job.name} has no preview, so it has no dry run")
    running = running or Pass(seconds=job.deadline_seconds)
    failed = False
    try:
        started_at = clock.now()
        row = _begun(job, started_at, dry_run=dry_run, asked_by=asked_by)
        if row is None:
            return FinishedPass(outcome=PassOutcome.BUSY)
        leases.job_lease_keeper().keep(row, running)
        try:
            with deadline.within_deadline(running):
                report = run_once(now=started_at, limit=limit or job.limit)
        except Exception as error:  # one job's failure is its own
            log.warning("job failed", job=job.name, exc_info=error)
            report, failed = PassReport(errors=1, detail={"error": type(error).__name__}), True
        finally:
            leases.job_lease_keeper().let_go(row)
        _end_job_report(row, started_at, report)
    except Error as error:
        log.warning("job could not be reported, the database is away", job=job.name, exc_info=error)
        return FinishedPass(outcome=PassOutcome.UNAVAILABLE)
    log.info("job", job=job.name, seen=report.seen, changed=report.changed, errors=report.errors, dry_run=dry_run)
    return FinishedPass(outcome=PassOutcome.FAILED if failed else PassOutcome.DONE, report=report)


def _begun(job: Job, started_at: datetime, *, dry_run: bool, asked_by: str | None) -> int | None:
    with transaction.atomic():
        row = leases.take_job_lease(job.name, started_at=started_at, dry_run=dry_run)
        if row is not None and asked_by is not None and not dry_run:
            trail.record_in_trail("job run", actor=asked_by, subject=f"job {job.name}", after={"report": row})
    return row


def _end_job_report(row: int, started_at: datetime, report: PassReport) -> None:
    """Over a new connection where the job's own was lost: else the next pass would wait for the lease to run out."""
    try:
        _write_job_report_end(row, started_at, report)
    except Error:
        connection.close()
        _write_job_report_end(row, started_at, report)


def _write_job_report_end(row: int, started_at: datetime, report: PassReport) -> None:
    JobReport.objects.filter(pk=row).update(
        ended_at=max(clock.now(), started_at),
        beat_at=None,
        seen=report.seen,
        changed=report.changed,
        errors=report.errors,
        detail=dict(report.detail),
    )
