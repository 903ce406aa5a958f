"""The form of every command that runs a job by hand.

Exit codes beside those of all commands: 0 the job did its pass; 1 it reported errors; 75 it is already running, here or
on another machine, which is no error.
"""

from typing import Any, ClassVar

from django.core.management.base import CommandParser

from dpp_project import actors
from dpp_project.jobs import registry, runner
from dpp_project.jobs.models import report_remarks
from dpp_project.jobs.registry import Job
from dpp_project.jobs.runner import PassOutcome
from dpp_project.management.base import EXIT_UNAVAILABLE, CommandAnswer, CommandRefused, OpsCommand, within_limit
from dpp_project.refusals import invalid

EXIT_ERRORS = 1
EXIT_BUSY = 75  # EX_TEMPFAIL

CODES = {
    PassOutcome.DONE: 0,
    PassOutcome.FAILED: EXIT_ERRORS,
    PassOutcome.BUSY: EXIT_BUSY,
    PassOutcome.UNAVAILABLE: EXIT_UNAVAILABLE,
}


def run_job(name: str, *, limit: int | None, dry_run: bool) -> CommandAnswer:
    job = registry.job_named(name)
    if dry_run and job.preview is None:
        raise CommandRefused(invalid("--dry-run", f"{name} has no preview"))
    if limit is not None:
        within_limit(limit)
    return answer_of_job(job, limit=limit, dry_run=dry_run)


def answer_of_job(job: Job, *, limit: int | None, dry_run: bool) -> CommandAnswer:
    ran = runner.run_job_pass(job, limit=limit, dry_run=dry_run, asked_by=actors.COMMAND)
    document: dict[str, Any] = {"job": job.name, "outcome": ran.outcome.value}
    report = ran.report
    if report is None:
        return CommandAnswer(document, [f"{job.name}: {ran.outcome.value}"], exit_code=CODES[ran.outcome])
    document |= {
        "seen": report.seen,
        "changed": report.changed,
        "errors": report.errors,
        "detail": dict(report.detail),
    }
    line = f"{job.name}: {report.seen} seen, {report.changed} changed, {report.errors} errors"
    code = EXIT_ERRORS if report.errors else CODES[ran.outcome]
    return CommandAnswer(document, [line, *report_remarks(report.detail)], exit_code=code)


class JobCommand(OpsCommand):
    """`job` names the job; `manage.py <command>` then runs one pass of it, lock and report as in beat."""

    changes = True
    job: ClassVar[str]

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("--limit", type=int, help="at most so many rows (default: all that is due)")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        return run_job(self.job, limit=options["limit"], dry_run=dry_run)
