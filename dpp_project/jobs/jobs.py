"""The jobs' own job: their reports do not pile up for ever."""

from datetime import datetime

from dpp_project import retention
from dpp_project.jobs.models import JobReport
from dpp_project.jobs.registry import Job, Report


def delete_old_reports(*, now: datetime, limit: int) -> Report:
    """Deletes the oldest reports past their period. Two at once find the same rows and delete each once."""
    old = _old(now=now, limit=limit)
    deleted, _ = JobReport.objects.filter(pk__in=old).delete()
    return Report(seen=len(old), changed=deleted)


def preview_old_reports(*, now: datetime, limit: int) -> Report:
    count = len(_old(now=now, limit=limit))
    return Report(seen=count, changed=count)


def _old(*, now: datetime, limit: int) -> list[int]:
    past = JobReport.objects.filter(started_at__lt=retention.cutoff("job_reports", now=now))
    return list(past.order_by("started_at").values_list("pk", flat=True)[:limit])


JOBS = (
    Job(
        name="job_reports_retention",
        summary="Deletes job reports past their retention period.",
        every_seconds=3_600,
        run_once=delete_old_reports,
        preview=preview_old_reports,
        limit=10_000,
    ),
)
