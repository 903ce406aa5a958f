"""What the platform has to tell a person of: a cleanup that fails, a process that fell silent, a disk that fills."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from django.db.models.functions import Now

from dpp_project.heartbeats import processes
from dpp_project.lifecycle import measuring
from dpp_project.lifecycle.alarming import AlarmCheck
from dpp_project.lifecycle.models import DataCleanup

FAILED_IN_A_ROW: Final = 2
CLEANUP_LATE: Final = timedelta(hours=26)
"""After its instant: longer than a day of 25 hours and one tick of each retry."""


def cleanup_failing() -> Mapping[str, str]:
    latest = DataCleanup.objects.order_by("-day").first()
    if latest is None or latest.failures < FAILED_IN_A_ROW:
        return {}
    failed = latest.steps.exclude(error="").values_list("kind", "error")
    why = ", ".join(f"{kind} ({error})" for kind, error in failed)
    return {"daily cleanup": f"failed {latest.failures} times in a row: {why or 'see the log'}"}


def cleanup_late() -> Mapping[str, str]:
    """Beat is away, or each pass dies: then nothing counts as a failure."""
    latest = DataCleanup.objects.order_by("-day").first()
    if latest is None:
        return {}
    late = DataCleanup.objects.filter(pk=latest.pk, due_at__lt=Now() - CLEANUP_LATE).exists()
    return {"daily cleanup": f"the last one was due at {latest.due_at:%Y-%m-%d %H:%M} UTC"} if late else {}


def silent_processes() -> Mapping[str, str]:
    return {
        f"{process.row.service} {process.row.pid} at {process.row.host}": "its heartbeat stopped"
        if process.is_stale
        else "it lives and gets nothing done"
        for process in processes.known_processes()
        if process.is_stale or process.stands_still
    }


def disks_filling() -> Mapping[str, str]:
    return {
        f"{disk} at {host}" if host else disk: said
        for (host, disk), outlook in measuring.disk_outlooks().items()
        if (said := outlook.alarms) is not None
    }


CHECKS: Final = (
    AlarmCheck(name="cleanup_failing", means="The daily cleanup failed twice in a row.", look=cleanup_failing),
    AlarmCheck(name="cleanup_late", means="The daily cleanup of a date did not begin.", look=cleanup_late),
    AlarmCheck(name="disk_filling", means="A disk is nearly full, or will be within a week.", look=disks_filling),
    AlarmCheck(
        name="process_silent",
        means="A process is silent, or lives and gets nothing done.",
        look=silent_processes,
    ),
)
