"""Processes on the console's first page."""

from django.urls import reverse

from dpp_project import clock, durations
from dpp_project.console.dashboard import Panel, bad_cell, dashboard_panel
from dpp_project.heartbeats import processes
from dpp_project.heartbeats.pulse import STALE_SECONDS, STILL_SECONDS

ROWS_MAX = 50


@dashboard_panel(title="Processes", order=11, permission="jobs.view_jobreport", is_live=True)
def processes_panel() -> Panel:
    now = clock.now()
    rows = [
        [
            "alive" if process.state == "alive" else bad_cell(process.state),
            process.row.service,
            f"{process.row.host}, {process.row.pid}",
            process.row.release,
            f"{process.row.progress} done, {process.row.slots} at once",
            durations.duration_ago(now - process.row.beat_at),
        ]
        for process in sorted(processes.known_processes(), key=lambda process: process.state == "alive")[:ROWS_MAX]
    ]
    return Panel(
        title="Processes",
        description=f"Each says every few seconds that it lives; one that is silent for {STALE_SECONDS} s is stale, one"
        f" whose loop has not turned for {STILL_SECONDS} s stands still.",
        link=reverse("admin:heartbeats_processheartbeat_changelist"),
        link_text="All processes",
        headers=["State", "Service", "Host, pid", "Release", "Work", "Last heard of"],
        rows=rows,
        wide=True,
        empty="No worker, beat or API has ever been heard of here: start them, and they appear within seconds.",
    )
