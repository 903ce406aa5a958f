"""The daily cleanup: once a local date, each kind that has a clearing loses what is past its period and unused.

    due      at the first instant of the date, in DPP_REPORT_TIME_ZONE, that is 03:00 or later (days.py)
    once     a row for each date; one whose date was missed, for a day or a week, is not made up for: the next clears
             the same and more
    resumed  each batch writes what it deleted and how far it came in its own transaction: a death loses nothing of it
    failed   a kind that fails hinders no other, and comes last from then on; the date stays open and is tried again,
             after 2 min, 4 … an hour. A pass that is over when a batch fails says so of its kind
    skipped  a row that cannot be deleted is passed by, counted and shown, and met again on the next date; more than
             SKIPPED_MAX in a pass are no bad rows but a kind that fails

Ages go by the database's clock, or by this process's where that is behind it: a host whose clock is ahead deletes
nothing early.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import structlog
from django.conf import settings
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from dpp_project import retention
from dpp_project.jobs import deadline
from dpp_project.jobs.registry import PassReport
from dpp_project.lifecycle import clearing, days
from dpp_project.lifecycle.clearing import ClearedBatch, Watermark
from dpp_project.lifecycle.models import CleanupStep, DataCleanup
from dpp_project.retention import DataKind
from dpp_project.stores.postgres import is_away

log = structlog.get_logger("dpp.data")

BATCH_FIRST: Final = 200
BATCH_MAX: Final = 5_000
BATCH_MIN: Final = 20
STATEMENT_SECONDS: Final = 0.06
"""What a batch is to take: its size follows what the last one took. Three times as much stays below 200 ms."""
REST: Final = 0.2
"""Of a batch's time, in which the disk belongs to others."""
SKIPPED_MAX: Final = 20
"""Of one kind in a pass."""
RETRY_FIRST_SECONDS: Final = 120
RETRY_MAX_SECONDS: Final = 3_600


def cleanup_clearings() -> Mapping[str, DataKind]:
    return {name: kind for name, kind in retention.data_kinds().items() if kind.clearing is not None}


def cleanup_moment(now: datetime) -> datetime:
    """The earlier of the two clocks. Other jobs that delete old rows for good go by it, too."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT least(%s::timestamptz, clock_timestamp())", [now])
        found: datetime = cursor.fetchone()[0]
    return found


@dataclass(slots=True)
class _Pass:
    limit: int
    batches: int = 0
    """Tried, whatever came of them."""
    changed: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, dict[str, str]] = field(default_factory=dict)
    """By kind, the place of each row, and why."""
    by_kind: dict[str, int] = field(default_factory=dict)
    bytes_deleted: int = 0

    def goes_on(self) -> bool:
        """A pass that begins late still does some of its work. One in which nothing succeeds ends in time all the same:
        each statement may wait ten seconds for a lock.
        """
        return self.changed < self.limit and not ((self.batches or self.failed) and deadline.is_over())

    def count(self, kind: str, batch: ClearedBatch) -> None:
        self.changed += batch.rows
        self.bytes_deleted += batch.bytes
        if batch.rows:
            self.by_kind[kind] = self.by_kind.get(kind, 0) + batch.rows

    def report(self, **more: Any) -> PassReport:
        detail: dict[str, Any] = {**more, "rows": self.by_kind, "bytes_deleted": self.bytes_deleted}
        if self.failed:
            detail["failed"] = self.failed
        shown = {f"{kind} {place}": why for kind, rows in self.skipped.items() for place, why in rows.items()}
        if shown:
            detail["skipped"] = shown
        return PassReport(seen=self.changed, changed=self.changed, errors=len(self.failed) + len(shown), detail=detail)

    def skip(self, kind: str, place: Watermark, error: Exception) -> None:
        log.warning("a row is not cleaned up", kind=kind, place=place, exc_info=error)
        self.skipped.setdefault(kind, {})[" ".join(place)] = type(error).__name__


def clean_due_data(*, now: datetime, limit: int) -> PassReport:
    """What is left of the latest due date's cleanup, if anything. Two at once share the rows."""
    at = cleanup_moment(now)
    day, due_at = days.latest_due(at, ZoneInfo(settings.REPORT_TIME_ZONE))
    cleanup = _cleanup_of(day, due_at)
    if cleanup is None or cleanup.ended_at is not None or (cleanup.next_try_at or at) > at:
        return PassReport()
    running = _Pass(limit)
    for kind in _in_their_order(cleanup):
        if not running.goes_on():
            break
        _run_cleanup_step(running, cleanup, kind, at)
    if running.failed:
        _put_off_data_cleanup(cleanup, at)
    elif not _left(cleanup):
        DataCleanup.objects.filter(pk=day).update(ended_at=Now(), failures=0, next_try_at=None)
        log.info("data cleaned up", day=str(day), rows=sum(step.rows for step in cleanup.steps.all()))
    return running.report(day=str(day))


def clean_now(*, now: datetime, limit: int, only: str | None = None) -> PassReport:
    """The same without a date: what a person asks for, in whatever hour."""
    at = cleanup_moment(now)
    running = _Pass(limit)
    for kind in _asked_for(only):
        with _data_kind_failing_alone(kind, running):
            for _ in _batches(running, kind, at=at, after=None, noted=lambda _batch: None):
                pass
    return running.report()


def preview_cleaning(*, now: datetime, limit: int, only: str | None = None) -> PassReport:
    found = count_due_rows(now=now, limit=limit, only=only)
    total = min(limit, sum(found.values()))
    return PassReport(seen=total, changed=total, detail={"rows": {name: rows for name, rows in found.items() if rows}})


def count_due_rows(*, now: datetime, limit: int, only: str | None = None) -> dict[str, int]:
    """By kind, how many rows the next cleanup would delete: `limit` of each are counted at most."""
    at = cleanup_moment(now)
    return {
        kind.name: clearing.count_due(kind.clearing, cutoff=retention.retention_cutoff(kind.name, now=at), limit=limit)
        for kind in _asked_for(only)
        if kind.clearing is not None
    }


def _asked_for(only: str | None) -> list[DataKind]:
    return [kind for name, kind in cleanup_clearings().items() if only in {None, name}]


def _cleanup_of(day: date, due_at: datetime) -> DataCleanup | None:
    """The row of this date, made where it is missing. None where a later date has one: the clock was set back."""
    latest = DataCleanup.objects.order_by("-day").first()
    if latest is not None and latest.day > day:
        return None
    if latest is None or latest.day < day:
        carried = 0 if latest is None or latest.ended_at is not None else latest.failures
        DataCleanup.objects.bulk_create([DataCleanup(day=day, due_at=due_at, failures=carried)], ignore_conflicts=True)
    return DataCleanup.objects.get(pk=day)


def _in_their_order(cleanup: DataCleanup) -> list[DataKind]:
    """Those that failed before come last: one that uses up a pass's time would keep the others waiting in each."""
    unended = cleanup.steps.filter(ended_at__isnull=True)
    failed = set(unended.exclude(error="").values_list("kind", flat=True))
    return sorted(cleanup_clearings().values(), key=lambda kind: kind.name in failed)


def _left(cleanup: DataCleanup) -> bool:
    ended = set(cleanup.steps.filter(ended_at__isnull=False).values_list("kind", flat=True))
    return bool(cleanup_clearings().keys() - ended)


def _run_cleanup_step(running: _Pass, cleanup: DataCleanup, kind: DataKind, at: datetime) -> None:
    step, _ = CleanupStep.objects.get_or_create(cleanup=cleanup, kind=kind.name)
    if step.ended_at is not None:
        return
    mine = CleanupStep.objects.filter(pk=step.pk)

    def note(batch: ClearedBatch) -> None:
        if batch.watermark is not None:
            mine.update(
                rows=F("rows") + batch.rows,
                bytes_deleted=F("bytes_deleted") + batch.bytes,
                watermark=batch.watermark,
            )

    with _data_kind_failing_alone(kind, running):
        if not step.table_bytes_before:  # by the first pass that can: it may wait for a lock in vain
            mine.update(table_bytes_before=table_bytes(kind))
        for batch in _batches(running, kind, at=at, after=step.watermark, noted=note):
            if batch.watermark is None:
                skipped = len(running.skipped.get(kind.name, ()))
                said = f"{skipped} rows skipped" if skipped else ""
                mine.update(ended_at=Now(), table_bytes_after=table_bytes(kind), error=said)
    if kind.name in running.failed:
        mine.update(error=running.failed[kind.name])


def _batches(
    running: _Pass, kind: DataKind, *, at: datetime, after: Watermark | None, noted: Any
) -> Iterator[ClearedBatch]:
    """Until none is left, which is the last one's answer, or the pass is over."""
    if kind.clearing is None:
        return
    cutoff = retention.retention_cutoff(kind.name, now=at)
    size = BATCH_FIRST
    while running.goes_on():
        began = time.monotonic()
        size = min(size, running.limit - running.changed)
        running.batches += 1
        try:
            batch = clearing.clear_batch(kind.clearing, cutoff=cutoff, after=after, size=size, noted=noted)
        except Exception as error:
            if is_away(error) or not running.goes_on():
                raise
            if size > 1:
                size //= 2  # until the row that cannot be deleted is alone
                continue
            after = _passed_by(running, kind, cutoff=cutoff, after=after, error=error)
            continue
        took = time.monotonic() - began
        running.count(kind.name, batch)
        yield batch
        if batch.watermark is None:
            return
        after = batch.watermark
        size = max(BATCH_MIN, min(BATCH_MAX, size * 2, round(size * STATEMENT_SECONDS / max(took, 1e-4))))
        time.sleep(took * REST)


def _passed_by(
    running: _Pass, kind: DataKind, *, cutoff: datetime, after: Watermark | None, error: Exception
) -> Watermark:
    place = None if kind.clearing is None else clearing.pass_by(kind.clearing, cutoff=cutoff, after=after)
    if place is None or len(running.skipped.get(kind.name, ())) >= SKIPPED_MAX:
        raise error
    running.skip(kind.name, place, error)
    return place


@contextmanager
def _data_kind_failing_alone(kind: DataKind, running: _Pass) -> Iterator[None]:
    """A kind's failure is its own; a database that is away fails them all."""
    try:
        yield
    except Exception as error:
        if is_away(error):
            raise
        running.failed[kind.name] = type(error).__name__
        log.exception("data not cleaned up", kind=kind.name)


def _put_off_data_cleanup(cleanup: DataCleanup, at: datetime) -> None:
    seconds = min(RETRY_MAX_SECONDS, RETRY_FIRST_SECONDS * 2 ** min(cleanup.failures, 16))
    DataCleanup.objects.filter(pk=cleanup.pk).update(
        failures=F("failures") + 1, next_try_at=at + timedelta(seconds=seconds)
    )


def table_bytes(kind: DataKind) -> int:
    with connection.cursor() as cursor:
        tables = {*kind.tables, *(column.partition(".")[0] for column in kind.columns)}
        cursor.execute(
            "SELECT coalesce(sum(pg_total_relation_size(name::regclass)), 0) FROM unnest(%s::text[]) AS name",
            [sorted(tables)],
        )
        return int(cursor.fetchone()[0])
