"""Ends tickets whose processing stopped long ago, and reports it (TKT-02 to TKT-06).

    clean      one transaction: the second is taken by its report's row, stale tickets are ended by compare-and-set,
               and the row gets the report they make
    publish    snapshot, then latest, then the row is marked

Dying in `clean` leaves nothing. Dying before or in `publish` leaves a row that is not marked: the next run writes the
same bytes to the same paths again. The newest is written first, and it alone becomes `latest`; what an outage of the
storage has left behind follows, so many in one run.
A report's name is exact to the second and belongs to it alone: a second run in one second waits for the next.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings
from django.db import OperationalError, connection, transaction

from dpp_project import clock
from dpp_project.audit import trail
from dpp_project.stores import advisory_lock
from ops.tickets import metrics, processors, reports, selectors, transitions
from ops.tickets.models import ReaperReport, Ticket
from ops.tickets.reports import CONTENT_TYPE, LATEST_PATH, CleanedItem, Report
from ops.tickets.transitions import EdgeOutcome
from runs.bucket import outages, storage
from runs.bucket.outages import StorageAway

log = structlog.get_logger("dpp.ops")

# Advisory locks: ("tick", 1) one cleaner, ("tick", 2) one publisher.
LOCK_CLASS: Final = 0x7469636B
CLEANER, PUBLISHER = 1, 2
STORAGE_AWAY: Final = (BotoCoreError, ClientError, OSError)
REPORT_BYTES_MAX: Final = 4 * 1024 * 1024
PUBLISHED_AT_ONCE: Final = 100
SKIPPED_MAX: Final = 1_000
TURNS: Final = 10


class Crowded(Exception):  # noqa: N818  a finding
    """Other passes took every second for so long that the caller has to retry later. No ticket was cleaned."""


@dataclass(frozen=True, slots=True)
class ReaperPass:
    """`published` is False where the storage did not answer: the tickets are ended, the report follows.

    `skipped` are stale tickets that could not be ended; they are as they were, and the next run tries them again.
    """

    report: Report
    published: bool
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cleaned:
    report: Report
    skipped: tuple[str, ...]


def reap_tickets(
    *,
    threshold_seconds: int | None = None,
    max_clean: int | None = None,
    excluded_types: Collection[str] | None = None,
    asked_by: str | None = None,
) -> ReaperPass:
    """One pass; what is not given is as set. Safe beside itself: cleaners take turns, a second each, or `Crowded`.

    One that a person asked for is entered into the audit trail with what it ended.
    """
    threshold = settings.TICKET_STALE_SECONDS if threshold_seconds is None else threshold_seconds
    most = settings.TICKET_REAPER_MAX_CLEAN if max_clean is None else max_clean
    excluded = settings.TICKET_REAPER_EXCLUDED_TYPES if excluded_types is None else excluded_types
    for _ in range(TURNS):
        done = _clean(threshold_seconds=threshold, max_clean=most, excluded_types=excluded, asked_by=asked_by)
        if done is not None:
            break
        wait_for_the_next_second(clock.now())
    else:
        raise Crowded
    made = done.report
    for item in made.cleaned_items:
        metrics.REAPED.labels(item.request_type).inc()
    log.info("tickets reaped", stale=made.stale_count, cleaned=made.cleaned_count, asof=made.asof)
    try:
        publish_due()
    except OperationalError as error:  # who waits its turn behind a storage that hangs is cut off in the end
        log.warning("report of the ticket reaper not written, another is still at it", exc_info=error)
    published = ReaperReport.objects.filter(snapshot_path=made.evidence_refs[0], published_at__isnull=False).exists()
    return ReaperPass(report=made, published=published, skipped=done.skipped)


def wait_for_the_next_second(now: datetime) -> None:
    left = timedelta(seconds=1) - timedelta(microseconds=now.microsecond)
    time.sleep(left.total_seconds())


def _clean(
    *, threshold_seconds: int, max_clean: int, excluded_types: Collection[str], asked_by: str | None
) -> "_Cleaned | None":
    """None: this second has a report already."""
    with transaction.atomic():
        advisory_lock.lock_until_commit((LOCK_CLASS, CLEANER))
        asof = clock.now().replace(microsecond=0)
        if ReaperReport.objects.filter(snapshot_path=reports.snapshot_path(asof)).exists():
            return None
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '2s'")  # one ticket that a session holds keeps no other waiting
        stale = selectors.stale_tickets(threshold_seconds=threshold_seconds, excluded_types=excluded_types)
        count = stale.count()
        cleaned: list[CleanedItem] = []
        skipped: list[str] = []
        for ticket in stale[: max_clean + SKIPPED_MAX]:
            if len(cleaned) == max_clean:
                break
            try:
                with transaction.atomic():
                    item = _reaped_ticket_item(ticket, threshold_seconds, asof)
            except Exception as error:  # what goes wrong with one ticket keeps no other from being cleaned
                if not connection.is_usable():
                    raise
                log.warning("stale ticket skipped", request_id=str(ticket.pk), exc_info=error)
                skipped.append(str(ticket.pk))
                continue
            if item is not None:
                cleaned.append(item)
        made = reports.reaper_report(
            asof=asof,
            threshold_seconds=threshold_seconds,
            stale_count=max(count, len(cleaned)),
            cleaned=cleaned,
        )
        ReaperReport.objects.create(
            asof=asof,
            snapshot_path=made.evidence_refs[0],
            content=made.content(),
            cleaned_count=made.cleaned_count,
            stale_count=made.stale_count,
        )
        if asked_by is not None:
            trail.record_in_trail(
                "ticket reaper run",
                actor=asked_by,
                subject="tickets",
                after={
                    "threshold_seconds": threshold_seconds,
                    "max_clean": max_clean,
                    "ended": [item.request_id for item in cleaned],
                },
            )
    return _Cleaned(made, tuple(skipped))


def _reaped_ticket_item(ticket: Ticket, threshold_seconds: int, asof: datetime) -> CleanedItem | None:
    """None: its processor came back at this very moment, and what it says stands."""
    outcome = transitions.clean_ticket(
        request_id=ticket.pk,
        version=ticket.version,
        threshold_seconds=threshold_seconds,
        at=asof,
        detail=processors.effect_of(ticket),
    )
    touched_at = ticket.last_processed_at or ticket.in_progress_at
    if outcome is EdgeOutcome.LOST or touched_at is None:
        return None
    return reports.cleaned_item(ticket, touched_at=touched_at)


def publish_due() -> None:
    """Write what no run has written yet, newest first. Where the storage does not answer, the next run goes on."""
    bucket = storage.shared_run_storage()
    # Waits for its turn: two at once could leave an older report as the latest.
    with advisory_lock.advisory_lock((LOCK_CLASS, PUBLISHER)):
        newest = ReaperReport.objects.order_by("-pk").values_list("pk", flat=True).first()
        for row in ReaperReport.objects.filter(published_at__isnull=True).order_by("-pk")[:PUBLISHED_AT_ONCE]:
            try:
                with outages.outages_told_apart():
                    for path in [row.snapshot_path, *([LATEST_PATH] if row.pk == newest else [])]:
                        bucket.put(path, row.content.encode(), content_type=CONTENT_TYPE)
            except StorageAway as error:
                log.warning("report of the ticket reaper not written, the storage is away", exc_info=error)
                return
            except ClientError as error:
                log.warning("report of the ticket reaper refused", path=row.snapshot_path, exc_info=error)
                continue
            ReaperReport.objects.filter(pk=row.pk).update(published_at=clock.now())


def latest_reaper_report() -> bytes | None:
    """The latest report as it stands in the storage; None before the first. Raises what boto3 raises."""
    try:
        return storage.shared_run_storage().read(LATEST_PATH, max_bytes=REPORT_BYTES_MAX)
    except storage.ObjectMissing:
        return None
