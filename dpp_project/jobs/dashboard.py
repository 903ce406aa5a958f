"""Jobs on the console's first page: each with its last report, and what they found and changed by the hour."""

from collections import defaultdict
from datetime import datetime, timedelta

from django.db.models import Count, Sum
from django.db.models.functions import TruncHour
from django.urls import reverse

from dpp_project import clock
from dpp_project.console.dashboard import Panel, Plot, panel
from dpp_project.jobs import registry
from dpp_project.jobs.models import JobReport

HOURS = 24
REMARKS_MAX = 3


@panel(title="Jobs", order=80, permission="jobs.view_jobreport")
def jobs_panel() -> Panel:
    now = clock.now()
    rows = []
    for job in registry.jobs().values():
        last = JobReport.objects.filter(job=job.name, dry_run=False).order_by("-started_at").first()
        if last is None:
            rows.append([job.name, f"every {job.every_seconds} s", "never ran", ""])
            continue
        age = max(0, round((now - last.started_at).total_seconds()))
        outcome = "running or died" if last.ended_at is None else f"{last.changed} of {last.seen}, {last.errors} errors"
        outcome = "; ".join([outcome, *last.remarks()[:REMARKS_MAX]])
        rows.append([job.name, f"every {job.every_seconds} s", f"{age} s ago", outcome])
    return Panel(
        title="Jobs",
        description="Each job with its last report.",
        link=reverse("admin:jobs_jobreport_changelist"),
        link_text="All reports",
        headers=["Job", "Schedule", "Last start", "Changed of seen"],
        rows=rows,
    )


@panel(title="Rows changed by jobs", order=81, permission="jobs.view_jobreport")
def job_work_panel() -> Panel:
    end = clock.now().replace(minute=0, second=0, microsecond=0)
    hours = [end - timedelta(hours=back) for back in reversed(range(HOURS))]
    found: dict[datetime, tuple[int, int, int]] = defaultdict(lambda: (0, 0, 0))
    for row in (
        JobReport.objects.filter(started_at__gte=hours[0], dry_run=False)
        .annotate(hour=TruncHour("started_at"))
        .values("hour")
        .annotate(passes=Count("pk"), changed=Sum("changed"), failed=Sum("errors"))
    ):
        found[row["hour"]] = (row["passes"], row["changed"], row["failed"])
    passes, changed, errors = zip(*(found[hour] for hour in hours), strict=True)
    return Panel(
        title="Rows changed by jobs",
        description=f"The last {HOURS} hours, by the hour (UTC).",
        plot=Plot(
            labels=[f"{hour:%H}" for hour in hours],
            stacked=False,
            series={"passes": list(passes), "changed": list(changed), "errors": list(errors)},
        ),
    )
