"""Sends a run's message again when it may be lost: QUEUED, held, and past its next send (DPP-43).

    postpone  by compare-and-set on the count of sends: of two at once one sends; the version stays, so that a worker
              which is just starting the run is not disturbed
    send      ten in a request

The row is the truth and the message a wake-up, so a message too many does nothing. A death between the two leaves the
row due again 5, 10, then every 20 minutes later.

Late is not lost: as long as a queue holds at least as many messages as rows of its lane are due, workers are merely
busy, and only rows more than 15 minutes late are sent again. A queue that refuses, or is gone, keeps its own lane
waiting and not the other. What the dead-letter consumer has marked is its own, until it was kept back and woken: then
it stands in the line like all others, and has no other message.

Before that, runs are woken that are kept back though their key, or their tenant, has room: the process that made the
room died first, or an operator raised a tenant's limit.
"""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from time import monotonic
from typing import Final

import structlog
from botocore.exceptions import ClientError
from django.db.models import QuerySet
from django.db.models.functions import Now

from dpp_project.aws import queue_depth
from dpp_project.aws.sqs_sender import BATCH
from dpp_project.constants import RESERVATION_TTL_SECONDS
from dpp_project.jobs import deadline
from dpp_project.jobs.registry import PassReport
from reaper import driver
from reaper.models import DeadLetter
from reaper.tally import Tally
from runs import transitions, turns
from runs.claims import LOST
from runs.models import Run
from runs.reads import for_recovery
from runs.submit import next_of_key, wake_worker
from runs.submit.wake_worker import Lane, Wakeup

log = structlog.get_logger("dpp.reaper")

LOOP: Final = "requeuer"
LATE_SECONDS: Final = 15 * 60
WAKING_SECONDS: Final = 10.0
"""Of a pass: a tenant names as many keys as it likes, and the lost messages of all wait behind them."""


def requeue_runs(*, now: datetime, limit: int) -> PassReport:
    del now  # due is what the database's clock says
    tally = Tally(LOOP, limit=limit)
    if woken := _woken(until=monotonic() + WAKING_SECONDS):
        tally.noted["woken"] = woken
    due = driver.rows_left_behind(tally, *_to_send(tally))
    refusing: set[str] = set()
    while some := list(islice(due, tally.room(BATCH))):
        lanes = _lanes(some)
        sent_to = [(run, lane) for run in some if (lane := lanes[run.tenant_id]).url not in refusing]
        wakeups = [Wakeup.of(run, lane=lane) for run, lane in sent_to if _postponed(tally, run)]
        failed = wake_worker.send_wakeups(wakeups)
        tally.changed += len(wakeups) - len(failed)
        for run_id, error in failed.items():
            tally.skip(run_id, why=type(error).__name__)
        asked, took = ({one.lane.url for one in of} for of in (wakeups, [w for w in wakeups if w.run_id not in failed]))
        if asked - took:
            log.warning("a queue takes no messages, the rest of its runs stays due", failed=len(failed))
            refusing |= asked - took
        if refusing >= {lane.url for lane in Lane}:
            tally.wait_for("SQS")
    return tally.report()


def preview_requeuing_runs(*, now: datetime, limit: int) -> PassReport:
    del now
    due = sum(due[:limit].count() for due in _to_send(Tally(LOOP)))
    return PassReport(seen=min(due, limit), changed=min(due, limit))


def _woken(*, until: float) -> int:
    woken = 0
    wakings = [
        *(partial(next_of_key.wake_limited_if_possible, tenant_id) for tenant_id in turns.tenants_to_wake()),
        *(partial(next_of_key.wake_next_if_possible, tenant_id, key) for tenant_id, key in turns.keys_to_wake()),
    ]
    random.shuffle(wakings)  # one backlog may take all the time, and is not the same one's in each pass
    for wake in wakings:
        at_once = next_of_key.MOST_AT_ONCE
        while at_once == next_of_key.MOST_AT_ONCE:
            if deadline.is_over() or monotonic() >= until:
                return woken  # they are kept back in the next pass as well, and what follows is everybody's
            at_once = wake()
            woken += at_once
    return woken


def _to_send(tally: Tally) -> Sequence[QuerySet[Run]]:
    """Of each lane by its own queue: what the flood has waiting says nothing of an express run's message.

    An SQS that does not answer ends the pass here, with every row as it was.
    """
    due = for_recovery.send_due()
    woken = _unless_waiting(tally, _woken_letters(), Lane.RUNS)
    if Lane.EXPRESS.url == Lane.RUNS.url:
        return [_unless_waiting(tally, due, Lane.RUNS), woken]
    in_line, express = for_recovery.by_lane(due)
    return [_unless_waiting(tally, express, Lane.EXPRESS), _unless_waiting(tally, in_line, Lane.RUNS), woken]


def _woken_letters() -> QuerySet[Run]:
    """By their letters, of which there are few: the runs have no index of them. An older letter's run was swept."""
    since = Now() - timedelta(seconds=2 * RESERVATION_TTL_SECONDS)
    letters = DeadLetter.objects.filter(outcome=DeadLetter.Outcome.REQUEUED, stored_at__gt=since, of_run__isnull=False)
    return for_recovery.woken_letters(letters.order_by().values_list("of_run", flat=True))


def _unless_waiting(tally: Tally, due: QuerySet[Run], lane: Lane) -> QuerySet[Run]:
    """A queue whose depth is refused, or that is gone, is this lane's alone: it may be full, so the late ones go."""
    if not (count := due.count()):
        return due
    try:
        visible, _ = queue_depth.queue_depth_of(lane.url)
    except ClientError as error:
        log.warning("the depth of a queue cannot be read", queue=lane.value, error=str(error))
        tally.noted[f"depth of {lane.value} refused"] += 1
        tally.errors += 1
    else:
        if visible < count:
            return due
    return due.filter(next_send_at__lt=Now() - timedelta(seconds=LATE_SECONDS))


def _lanes(some: Sequence[Run]) -> dict[str, Lane]:
    """As at the submit: a run of a tenant that has few open waits behind nobody's flood."""
    counts = for_recovery.open_runs({run.tenant_id for run in some})
    return {tenant_id: Lane.of(count - 1) for tenant_id, count in counts.items()}


def _postponed(tally: Tally, run: Run) -> bool:
    with tally.each(run.run_id):
        postponed = transitions.postpone_send(
            run_id=run.run_id, send_count=run.send_count, dead_lettered_at=run.dead_lettered_at
        )
        if postponed is not LOST:
            return True
        tally.lost()
    return False
