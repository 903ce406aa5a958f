"""Processes on the console's first page."""

from django.urls import reverse

from dpp_project import clock
from dpp_project.console.dashboard import Panel, panel
from dpp_project.heartbeats import processes
from dpp_project.heartbeats.pulse import STALE_SECONDS

ROWS_MAX = 50


@panel(title="Processes", order=11, permission="jobs.view_jobreport")
def processes_panel() -> Panel:
    now = clock.now()
    rows = [
        [
            "stale" if process.is_stale else "alive",
            process.row.service,
            f"{process.row.host}, {process.row.pid}",
            process.row.release,
            f"{process.row.progress} done, {process.row.slots} at once",
            f"{max(0, round((now - process.row.beat_at).total_seconds()))} s ago",
        ]
        for process in sorted(processes.known(), key=lambda process: not process.is_stale)[:ROWS_MAX]
    ]
    return Panel(
        title="Processes",
        description=f"Each says every few seconds that it lives; one that is silent for {STALE_SECONDS} s is stale.",
        link=reverse("admin:heartbeats_processheartbeat_changelist"),
        link_text="All processes",
        headers=["State", "Service", "Host, pid", "Release", "Work", "Last heard of"],
        rows=rows,
    )
