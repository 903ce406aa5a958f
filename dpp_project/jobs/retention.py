from dpp_project.constants import RETENTION_DAYS
from dpp_project.jobs.models import JobReport
from dpp_project.retention import DAILY, Clearing, DataKind

KINDS = (
    DataKind(
        name="job_reports",
        tables=("job_reports",),
        states="at work (it has a heartbeat), ended; without an end: its process died",
        made_by="each pass of a job",
        read_by="console, `manage.py jobs`, metrics",
        days=RETENTION_DAYS,
        until="after it began",
        why="Long enough to look back over a month of recoveries; a job every 30 s writes 86,400 rows in it.",
        deleted_by=DAILY,
        clearing=Clearing(
            rows=lambda cutoff: JobReport.objects.filter(started_at__lt=cutoff, beat_at__isnull=True),
            order=("started_at", "id"),
        ),
    ),
)
