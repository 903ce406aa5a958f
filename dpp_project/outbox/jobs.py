"""The outbox's own recovery: what publishers and consumers that died have left."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from dpp_project.aws import queue_depth
from dpp_project.jobs import deadline
from dpp_project.jobs.registry import Job, PassReport
from dpp_project.jobs.skipped_rows import SkippedRows
from dpp_project.outbox import dead_queue, metrics, queue, resending

AT_ONCE: Final = 1_000


def resend_overdue_events(*, now: datetime, limit: int) -> PassReport:
    """Ages go by the database's clock. Two at once share the rows."""
    del now
    taken_over = _outbox_count_in_batches(lambda some: resending.take_over(limit=some), limit=limit)
    metrics.TAKEN_OVER.inc(taken_over)
    resent = _outbox_count_in_batches(lambda some: resending.send_overdue(limit=some), limit=limit - taken_over)
    metrics.RESENT.inc(resent)
    found = taken_over + resent
    return PassReport(seen=found, changed=found, detail={"taken over": taken_over, "sent again": resent})


def preview_resending_events(*, now: datetime, limit: int) -> PassReport:
    del now
    count = resending.count_due(limit=limit)
    return PassReport(seen=count, changed=count)


def dead_letters(*, now: datetime, limit: int) -> PassReport:
    del now
    if queue.DEAD_LETTERS_URL is None:
        return PassReport()
    skipped = SkippedRows("events_dead_letters")
    seen, ended = dead_queue.drain_dead_queue(queue.DEAD_LETTERS_URL, limit=limit, skipped=skipped)
    return PassReport(
        seen=seen,
        changed=seen - skipped.errors,
        errors=skipped.errors,
        detail={"events given up": ended, **skipped.detail},
    )


def preview_dead_letters(*, now: datetime, limit: int) -> PassReport:
    """How many there are; to look at one is to receive it, which is a change."""
    del now
    visible = 0 if queue.DEAD_LETTERS_URL is None else queue_depth.queue_depth_of(queue.DEAD_LETTERS_URL)[0]
    waiting = min(limit, visible)
    return PassReport(seen=waiting, changed=waiting)


def _outbox_count_in_batches(some: Callable[[int], int], *, limit: int) -> int:
    """In batches, each a transaction of its own, until none is left or the pass is over."""
    changed = 0
    while changed < limit and not (changed and deadline.is_over()):
        found = some(min(AT_ONCE, limit - changed))
        if not found:
            break
        changed += found
    return changed


JOBS: Final = (
    Job(
        name="events_overdue",
        summary="Takes over claims of dead publishers; sends events again of which nothing was heard.",
        every_seconds=30,
        run_once=resend_overdue_events,
        preview=preview_resending_events,
    ),
    Job(
        name="events_dead_letters",
        summary="Stores what the events' queue gave up after a hundred receives, and ends its events.",
        every_seconds=60,
        run_once=dead_letters,
        preview=preview_dead_letters,
    ),
)
