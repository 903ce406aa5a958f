"""Alarms, and the last daily cleanups, on the console's first page."""

from django.urls import reverse

from dpp_project.console.dashboard import Panel, dashboard_panel
from dpp_project.lifecycle import alarming, measuring
from dpp_project.lifecycle.models import DataCleanup

ROWS_MAX = 20


@dashboard_panel(title="Alarms", order=5, permission="lifecycle.view_alarm")
def alarms_panel() -> Panel:
    standing = alarming.standing_alarms()
    return Panel(
        title="Alarms",
        description="What a person must see to; docs/operations.md says how. Each ends by itself once it is over.",
        link=reverse("admin:lifecycle_alarm_changelist"),
        link_text="All alarms",
        headers=["Alarm", "Of", "", "Since"],
        rows=[
            [alarm.name, alarm.subject, alarm.said, f"{alarm.began_at:%Y-%m-%d %H:%M}"] for alarm in standing[:ROWS_MAX]
        ],
        empty="None.",
    )


@dashboard_panel(title="Daily cleanup", order=82, permission="lifecycle.view_datacleanup")
def cleanup_panel() -> Panel:
    rows = []
    for cleanup in DataCleanup.objects.prefetch_related("steps")[:7]:
        steps = list(cleanup.steps.all())
        state = "done" if cleanup.ended_at else f"failed {cleanup.failures} times" if cleanup.failures else "at work"
        deleted, returned = sum(step.bytes_deleted for step in steps), sum(step.bytes_returned for step in steps)
        rows.append([f"{cleanup.day}", state, sum(step.rows for step in steps), f"{deleted:,}", f"{returned:,}"])
    return Panel(
        title="Daily cleanup",
        description="Bytes of deleted rows are for their table to use again; what came back to the disk stands beside.",
        link=reverse("admin:lifecycle_datacleanup_changelist"),
        link_text="All cleanups",
        headers=["Day", "State", "Rows", "Bytes deleted", "Bytes returned"],
        rows=rows,
    )


@dashboard_panel(title="Disks", order=83, permission="lifecycle.view_diskuse")
def disks_panel() -> Panel:
    rows = []
    for (host, disk), outlook in list(measuring.disk_outlooks().items())[:ROWS_MAX]:
        share = "?" if not outlook.total_bytes else f"{100 * outlook.used_bytes / outlook.total_bytes:.0f} %"
        growth = "?" if outlook.bytes_a_day is None else f"{outlook.bytes_a_day / 1e6:,.1f} MB"
        full = "" if outlook.days_until_full is None else f"{outlook.days_until_full:,.0f}"
        rows.append([host, disk, f"{outlook.used_bytes / 1e6:,.0f} MB", share, growth, full])
    largest = ", ".join(f"{size.kind} {size.bytes / 1e6:,.1f} MB" for size in measuring.data_sizes()[:5])
    return Panel(
        title="Disks",
        description=f"Measured each day. The largest kinds of data: {largest or 'not measured yet'}.",
        headers=["Host", "Disk", "Used", "Full", "Growth a day", "Days until full"],
        rows=rows,
        wide=True,
    )
