"""The jobs' own job: their reports do not pile up for ever."""

from datetime import datetime
from typing import Final

from django.db.models import QuerySet

from dpp_project import retention
from dpp_project.jobs import deadline
from dpp_project.jobs.models import JobReport
from dpp_project.jobs.registry import Job, PassReport

AT_ONCE: Final = 10_000


def delete_old_reports(*, now: datetime, limit: int) -> PassReport:
    """Deletes the oldest reports past their period. Two at once find the same rows and delete each once."""
    seen = changed = 0
    while seen < limit and not (seen and deadline.is_over()):
        old = _old(now=now, limit=min(AT_ONCE, limit - seen))
        if not old:
            break
        deleted, _ = JobReport.objects.filter(pk__in=old).delete()
        seen, changed = seen + len(old), changed + deleted
    return PassReport(seen=seen, changed=changed)


def preview_old_reports(*, now: datetime, limit: int) -> PassReport:
    count = _past(now)[:limit].count()
    return PassReport(seen=count, changed=count)


def _old(*, now: datetime, limit: int) -> list[int]:
    return list(_past(now).values_list("pk", flat=True)[:limit])


def _past(now: datetime) -> QuerySet[JobReport]:
    return JobReport.objects.filter(started_at__lt=retention.cutoff("job_reports", now=now)).order_by("started_at")


JOBS = (
    Job(
        name="job_reports_retention",
        summary="Deletes job reports past their retention period.",
        every_seconds=3_600,
        run_once=delete_old_reports,
        preview=preview_old_reports,
    ),
)
