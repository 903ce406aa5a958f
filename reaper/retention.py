"""Makes ended runs past their retention into tombstones, and lets old tombstones and dead letters go (DPP-23).

    delete   every object under the run's prefix
    expire   by compare-and-set: EXPIRED, without pointer, key, inputs and earlier history; the money stays

In this order: a death in between leaves a row whose result is gone, which the owner is answered 410 for all the same,
since that goes by the clock; the next pass deletes nothing and expires it. The bucket's own lifecycle is the second
lock. The ledger keeps its entries for ever.
"""

from datetime import datetime
from typing import Final

import structlog
from botocore.exceptions import BotoCoreError, ClientError

from dpp_project import retention
from dpp_project.constants import RETENTION_DAYS
from dpp_project.jobs.registry import Report
from dpp_project.retention import Period
from reaper.models import DeadLetter
from reaper.tally import Tally
from runs import transitions
from runs.bucket import storage
from runs.claims import LOST
from runs.models import Run
from runs.reads import for_recovery

log = structlog.get_logger("dpp.reaper")

ACTOR: Final = "retention"

PERIODS = (
    Period(
        kind="dead_letters",
        days=RETENTION_DAYS,
        why="As long as the run they were for; after that there is nothing left to send again.",
    ),
)


def run_once(*, now: datetime, limit: int) -> Report:
    """`now` ages dead letters; runs are past their retention when the database's clock says so."""
    tally = Tally(ACTOR)
    try:
        _expire(tally, limit)
    except (BotoCoreError, ClientError, OSError) as error:
        log.warning("S3 is away, runs keep until the next pass", exc_info=error)
        tally.errors += 1
    _forget(tally, limit)
    letters = _old_letters(now=now, limit=limit)
    tally.seen += len(letters)
    deleted, _ = DeadLetter.objects.filter(pk__in=letters).delete()
    tally.changed += deleted
    return tally.report()


def preview(*, now: datetime, limit: int) -> Report:
    due = (
        len(for_recovery.past_retention()[:limit])
        + len(for_recovery.old_tombstones()[:limit])
        + len(_old_letters(now=now, limit=limit))
    )
    return Report(seen=due, changed=due)


def _expire(tally: Tally, limit: int) -> None:
    bucket = storage.shared()
    for run in for_recovery.past_retention()[:limit]:
        objects = bucket.delete_prefix(_prefix(run))
        with tally.each(run):
            if transitions.expire(run_id=run.run_id, version=run.version, actor=ACTOR) is LOST:
                tally.lost()
                continue
            tally.changed += 1
            tally.noted["expired"] += 1
            tally.noted["objects deleted"] += objects


def _forget(tally: Tally, limit: int) -> None:
    for run in for_recovery.old_tombstones()[:limit]:
        with tally.each(run):
            if transitions.forget(run_id=run.run_id, version=run.version) is LOST:
                tally.lost()
                continue
            tally.changed += 1
            tally.noted["forgotten"] += 1


def _prefix(run: Run) -> str:
    return storage.run_prefix(tenant_id=run.tenant_id, run_id=run.run_id, created_at=run.created_at)


def _old_letters(*, now: datetime, limit: int) -> list[int]:
    old = DeadLetter.objects.filter(stored_at__lt=retention.cutoff("dead_letters", now=now))
    return list(old.order_by("stored_at").values_list("pk", flat=True)[:limit])
