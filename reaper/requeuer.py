"""Sends a run's message again when it may be lost: QUEUED, held, and past its next send (DPP-43).

    postpone  by compare-and-set on the count of sends: of two at once one sends; the version stays, so that a worker
              which is just starting the run is not disturbed
    send      ten in a request

The row is the truth and the message a wake-up, so a message too many does nothing. A death between the two leaves the
row due again 5, 10, then every 20 minutes later.

Late is not lost: as long as the queue holds at least as many messages as rows are due, workers are merely busy, and
only rows more than 15 minutes late are sent again. What the dead-letter consumer has marked is its own alone.
"""

from datetime import datetime, timedelta
from itertools import islice
from typing import Final

import structlog
from django.db.models import QuerySet
from django.db.models.functions import Now

from dpp_project.aws import queue_depth
from dpp_project.aws.sqs_sender import BATCH
from dpp_project.jobs.registry import PassReport
from dpp_project.process_env import ENV
from reaper import driver
from reaper.tally import Tally
from runs import transitions
from runs.claims import LOST
from runs.models import Run
from runs.reads import for_recovery
from runs.submit import wake_worker
from runs.submit.wake_worker import Wakeup

log = structlog.get_logger("dpp.reaper")

LOOP: Final = "requeuer"
LATE_SECONDS: Final = 15 * 60


def run_once(*, now: datetime, limit: int) -> PassReport:
    del now  # due is what the database's clock says
    tally = Tally(LOOP, limit=limit)
    due = driver.rows_left_behind(tally, _to_send())
    while some := list(islice(due, tally.room(BATCH))):
        wakeups = [Wakeup.of(run) for run in some if _postponed(tally, run)]
        failed = wake_worker.send_many(wakeups)
        tally.changed += len(wakeups) - len(failed)
        for run_id, error in failed.items():
            tally.skip(run_id, why=type(error).__name__)
        if wakeups and len(failed) == len(wakeups):
            log.warning("the queue takes no messages, the rest stays due", failed=len(failed))
            tally.wait_for("SQS")
    return tally.report()


def preview(*, now: datetime, limit: int) -> PassReport:
    del now
    due = _to_send()[:limit].count()
    return PassReport(seen=due, changed=due)


def _to_send() -> QuerySet[Run]:
    """An SQS that does not answer ends the pass here, with every row as it was."""
    due = for_recovery.send_due()
    if not (count := due.count()):
        return due
    visible, _ = queue_depth.depth(ENV.DPP_QUEUE_URL)
    if visible < count:
        return due
    return due.filter(next_send_at__lt=Now() - timedelta(seconds=LATE_SECONDS))


def _postponed(tally: Tally, run: Run) -> bool:
    with tally.each(run.run_id):
        if transitions.postpone_send(run_id=run.run_id, send_count=run.send_count) is not LOST:
            return True
        tally.lost()
    return False
