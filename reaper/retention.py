"""Makes ended runs past their retention into tombstones; lets old tombstones, dead letters and uploads go (DPP-23).

    delete   every object under the run's prefix
    expire   by compare-and-set: EXPIRED, without pointer, key, inputs and earlier history; the money stays

In this order: a death in between leaves a row whose result is gone, which the owner is answered 410 for all the same,
since that goes by the clock; the next pass deletes nothing and expires it. The bucket's own lifecycle is the second
lock. The ledger keeps its entries for ever.

An object that S3 refuses to delete is its row's alone: the run, or the upload, is skipped and shown, the others go.
Where S3 does not answer at all, no further row is asked about until the next pass, which begins with the others: an
object that S3 never answers for stops neither runs nor uploads.
"""

from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import QuerySet

from dpp_project import retention
from dpp_project.constants import RETENTION_DAYS
from dpp_project.jobs.registry import PassReport
from dpp_project.lifecycle import cleaning
from dpp_project.retention import DataKind
from dpp_project.stores.postgres import database_now
from reaper import driver
from reaper.models import DeadLetter
from reaper.tally import Tally
from runs import transitions
from runs.bucket import outages, storage, uploads
from runs.claims import LOST
from runs.models import Run, UploadRoom
from runs.reads import for_recovery
from runs.states import Status

ACTOR: Final = "retention"
LETTERS_AT_ONCE: Final = 1_000

KINDS = (
    DataKind(
        name="dead_letters",
        tables=("dead_letters",),
        states="stored, sent again",
        made_by="the job `dead_letters`",
        read_by="operators, in the console and by `manage.py dlq`",
        days=RETENTION_DAYS,
        until="after it was stored",
        why="As long as the run they were for; after that there is nothing left to send again.",
        deleted_by="the job `run_retention`",
    ),
)


def expire_runs(*, now: datetime, limit: int) -> PassReport:
    """Dead letters go by the earlier of the database's clock and this process's, runs by the database's alone.

    What needs no S3 comes first, so that it goes while S3 is away.
    """
    tally = Tally(ACTOR, limit=limit)
    with tally.each("dead letters", seen=0):
        _forget_letters(tally, now=now)
    old = database_now() - timedelta(days=RETENTION_DAYS)
    dues: tuple[QuerySet[Any], ...] = (
        for_recovery.old_tombstones(),
        for_recovery.past_retention(),
        uploads.uploads_past_retention(),
        uploads.unseen_uploads(),
    )
    for row in driver.rows_left_behind(tally, *dues, without_s3=1):
        with tally.each(row.pk):
            match row:
                case UploadRoom() if row.created_at < old:
                    _delete_upload(tally, row)
                case UploadRoom():
                    _look_for_upload(tally, row)
                case Run(status=Status.EXPIRED):
                    _forget_run_tombstone(tally, row)
                case Run():
                    _expire(tally, row)
    return tally.report()


def preview_expiring_runs(*, now: datetime, limit: int) -> PassReport:
    due = sum(
        rows.count()
        for rows in (
            for_recovery.past_retention()[:limit],
            for_recovery.old_tombstones()[:limit],
            _old_letters(now=cleaning.cleanup_moment(now))[:limit],
            uploads.uploads_past_retention()[:limit],
            uploads.unseen_uploads()[:limit],
        )
    )
    return PassReport(seen=due, changed=due)


def _forget_letters(tally: Tally, *, now: datetime) -> None:
    old = _old_letters(now=cleaning.cleanup_moment(now)).values_list("pk", flat=True)
    while tally.goes_on():
        letters = list(old[: tally.room(LETTERS_AT_ONCE)])
        if not letters:
            return
        deleted, _ = DeadLetter.objects.filter(pk__in=letters).delete()
        tally.seen += len(letters)
        tally.changed += deleted


def _forget_run_tombstone(tally: Tally, tombstone: Run) -> None:
    if transitions.forget(run_id=tombstone.run_id, version=tombstone.version) is LOST:
        tally.lost()
        return
    tally.changed += 1
    tally.noted["forgotten"] += 1


def _expire(tally: Tally, run: Run) -> None:
    with outages.outages_told_apart():
        objects = storage.shared_run_storage().delete_prefix(_prefix(run))
    if transitions.expire(run_id=run.run_id, version=run.version, actor=ACTOR) is LOST:
        tally.lost()
        return
    tally.changed += 1
    tally.noted["expired"] += 1
    tally.noted["objects deleted"] += objects


def _delete_upload(tally: Tally, room: UploadRoom) -> None:
    with outages.outages_told_apart():
        uploads.give_back_upload_room(room)
    tally.changed += 1
    tally.noted["uploads deleted"] += 1


def _look_for_upload(tally: Tally, room: UploadRoom) -> None:
    with outages.outages_told_apart():
        is_there = uploads.look_into_upload(room)
    tally.changed += 1
    tally.noted["uploads found" if is_there else "unused room given back"] += 1


def _prefix(run: Run) -> str:
    return storage.run_prefix(tenant_id=run.tenant_id, run_id=run.run_id, created_at=run.created_at)


def _old_letters(*, now: datetime) -> QuerySet[DeadLetter]:
    old = DeadLetter.objects.filter(stored_at__lt=retention.retention_cutoff("dead_letters", now=now))
    return old.order_by("stored_at", "pk")
