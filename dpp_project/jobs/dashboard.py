"""Jobs on the console's first page: each with its last report, and what they found and changed by the hour."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Sum
from django.db.models.functions import TruncHour
from django.urls import reverse

from dpp_project import clock, durations
from dpp_project.console.dashboard import Figure, Panel, Plot, bad_cell, dashboard_panel
from dpp_project.jobs import registry
from dpp_project.jobs.models import JobReport
from dpp_project.jobs.registry import Job

HOURS = 24
REMARKS_MAX = 3
OVERDUE_SHOWN = 8
MISSED = 2
"""Passes; one may take as long as its interval."""
GRACE = timedelta(minutes=1)


@dashboard_panel(title="Loops", order=14, permission="jobs.view_jobreport", is_live=True)
def jobs_panel() -> Panel:
    """Those that do not run as they should stand in the table; that all do is said in one line.

    Each that met errors does. Of the overdue ones the first few do: where Beat is away, all are, and for one reason.
    """
    now = clock.now()
    standing = [_standing(job, now) for job in registry.declared_jobs().values()]
    failing = [one for one in standing if one.fault and not one.is_overdue]
    overdue = sorted((one for one in standing if one.is_overdue), key=lambda one: one.started == "never")
    shown = [*overdue[:OVERDUE_SHOWN], *failing]
    reports = reverse("admin:jobs_jobreport_changelist")
    return Panel(
        title="Loops",
        description="Periodic jobs, each by its own schedule; they recover what died, and they expire what is old.",
        figures=[
            Figure(label="Jobs", value=str(len(standing)), link=reports),
            Figure(
                label="Overdue",
                value=str(len(overdue)),
                note="Beat does not run, or hangs: start it, docs/operations.md#recovery."
                if overdue
                else "All in time.",
                link=reports,
                is_bad=bool(overdue),
            ),
            Figure(label="With errors", value=str(len(failing)), link=f"{reports}?errors__gt=0", is_bad=bool(failing)),
        ],
        link=reports,
        link_text="All reports",
        headers=["Job", "Schedule", "Last start", "What is wrong"] if shown else (),
        rows=[[one.name, one.schedule, one.started, bad_cell(one.fault)] for one in shown],
    )


@dataclass(frozen=True, slots=True)
class _Standing:
    name: str
    schedule: str
    started: str
    fault: str
    is_overdue: bool


def _standing(job: Job, now: datetime) -> _Standing:
    every = timedelta(seconds=job.every_seconds)
    schedule = f"every {durations.duration_text(every)}"
    last = JobReport.objects.filter(job=job.name, dry_run=False).order_by("-started_at").first()
    if last is None:
        return _Standing(job.name, schedule, "never", "never ran", is_overdue=True)
    age = max(timedelta(), now - last.started_at)
    late = age - every * MISSED - GRACE
    started = durations.duration_ago(age)
    if late > timedelta():
        return _Standing(
            job.name, schedule, started, f"overdue by {durations.duration_text(age - every)}", is_overdue=True
        )
    said = [f"{last.errors} errors"] if last.errors else []
    if last.ended_at is None and last.beat_at is None:
        said.append("its process died")
    return _Standing(job.name, schedule, started, "; ".join([*said, *last.remarks()[:REMARKS_MAX]]), is_overdue=False)


@dashboard_panel(title="Rows changed by jobs", order=81, permission="jobs.view_jobreport")
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
