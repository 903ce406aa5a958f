"""Sessions that are over leave the table; the console's and those of the account pages lie in the same one."""

from datetime import datetime
from typing import Any, Final

from dpp_project.jobs import deadline
from dpp_project.jobs.registry import Job, PassReport

AT_ONCE: Final = 5_000


def delete_ended_sessions(*, now: datetime, limit: int) -> PassReport:
    """Two at once find the same rows and delete each once. One that ends meanwhile is left for the next pass."""
    seen = changed = 0
    while seen < limit and not (seen and deadline.is_over()):
        ended = list(_ended(now).values_list("pk", flat=True)[: min(AT_ONCE, limit - seen)])
        if not ended:
            break
        deleted, _ = _ended(now).filter(pk__in=ended).delete()
        seen, changed = seen + len(ended), changed + deleted
    return PassReport(seen=seen, changed=changed)


def preview_ended_sessions(*, now: datetime, limit: int) -> PassReport:
    count = _ended(now)[:limit].count()
    return PassReport(seen=count, changed=count)


def _ended(now: datetime) -> Any:
    from django.contrib.sessions.models import Session  # a worker has no pages, and no such table of its own

    return Session.objects.filter(expire_date__lt=now).order_by("expire_date")


JOBS = (
    Job(
        name="sessions_ended",
        summary="Deletes sessions of the console and of the account pages that are over.",
        every_seconds=3_600,
        run_once=delete_ended_sessions,
        preview=preview_ended_sessions,
    ),
)
