"""manage.py jobs"""

from datetime import datetime
from typing import Any

from dpp_project import clock
from dpp_project.jobs import registry
from dpp_project.jobs.models import JobReport
from dpp_project.jobs.registry import Job
from dpp_project.management.base import CommandAnswer, OpsCommand


class Command(OpsCommand):
    help = "List the jobs with their last reports."

    def run(self, *, dry_run: bool, **_options: Any) -> CommandAnswer:
        del dry_run
        now = clock.now()
        documents = [describe_job(job, now) for job in registry.declared_jobs().values()]
        lines = [line for document in documents for line in _lines_of_job(document)]
        return CommandAnswer({"jobs": documents}, lines or ["There are no jobs."])


def describe_job(job: Job, now: datetime) -> dict[str, Any]:
    last = JobReport.objects.filter(job=job.name, dry_run=False).order_by("-started_at").first()
    document: dict[str, Any] = {
        "job": job.name,
        "summary": job.summary,
        "every_seconds": job.every_seconds,
        "last": None,
    }
    if last is not None:
        document["last"] = {
            "started_at": last.started_at.isoformat(),
            "ended_at": last.ended_at and last.ended_at.isoformat(),
            "age_seconds": round((now - last.started_at).total_seconds()),
            "seen": last.seen,
            "changed": last.changed,
            "errors": last.errors,
            "remarks": last.remarks(),
        }
    return document


def _lines_of_job(document: dict[str, Any]) -> list[str]:
    remarks = document["last"]["remarks"] if document["last"] else []
    return [_first_line_of_job(document), *(f"    {remark}" for remark in remarks)]


def _first_line_of_job(document: dict[str, Any]) -> str:
    last = document["last"]
    head = f"{document['job']}  every {document['every_seconds']} s  "
    if last is None:
        return f"{head}never ran"
    if last["ended_at"] is None:
        return f"{head}started {last['age_seconds']} s ago, running or died"
    return f"{head}{last['age_seconds']} s ago: {last['seen']} seen, {last['changed']} changed, {last['errors']} errors"
