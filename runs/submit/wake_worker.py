"""Wakes a worker for a run: one message, whose kwargs are exactly the documented ones (DPP-38).

The message carries nothing that decides anything: the row does. It may be lost (the requeuer sends again), doubled or
late (a run starts by compare-and-set). In the queue of runs it stands for one start and not for its own run's: the
worker takes the run whose turn it is (turns.py), and one without a turn by its name.
"""

import enum
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

from dpp_project import clock
from dpp_project.aws import sqs_sender
from dpp_project.aws.joined_sends import JoinedSends
from dpp_project.aws.sqs_sender import BATCH, QueueMessage, SendFailed
from dpp_project.celery_sqs import celery_message, lanes
from dpp_project.process_env import ENV
from dpp_project.processes.per_process import PerProcess
from runs.models import Run

TASK: Final = "runs.tasks.execute"
SCHEMA_VERSION: Final = "1"
EXPRESS_BELOW: Final = 4
"""A tenant with fewer open runs has its next one in the express queue, which the floods of others do not fill."""


class Lane(enum.Enum):
    """The queue that a run waits in. It decides how soon a worker comes, and nothing else."""

    RUNS = lanes.RUNS
    EXPRESS = lanes.EXPRESS

    @classmethod
    def of(cls, open_runs: int) -> "Lane":
        return cls.EXPRESS if open_runs < express_below() else cls.RUNS

    @property
    def url(self) -> str:
        """Where no express queue is set, all runs wait in one."""
        express = ENV.DPP_EXPRESS_QUEUE_URL if self is Lane.EXPRESS else None
        return express or ENV.DPP_QUEUE_URL


def express_below() -> int:
    """Without an express queue all wait in one, in turns."""
    return EXPRESS_BELOW if ENV.DPP_EXPRESS_QUEUE_URL else 0


@PerProcess
def express_sender() -> sqs_sender.Sender:
    """This process's sender to the express queue."""
    return sqs_sender.sqs_sender_to(Lane.EXPRESS.url)


def _sender(lane: Lane) -> sqs_sender.Sender:
    return express_sender() if lane is Lane.EXPRESS else sqs_sender.shared_sender()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wakeup:
    """The message that names a run to a worker."""

    run_id: uuid.UUID
    tenant_id: str
    pack_type: str
    trace_id: str | None
    lane: Lane = Lane.RUNS

    @classmethod
    def of(cls, run: Run, *, lane: Lane = Lane.RUNS) -> Self:
        return cls(
            run_id=run.run_id, tenant_id=run.tenant_id, pack_type=run.pack_type, trace_id=run.trace_id, lane=lane
        )

    def message(self) -> QueueMessage:
        body = celery_message.pack_celery_message(
            task=TASK,
            kwargs={
                "run_id": str(self.run_id),
                "tenant_id": self.tenant_id,
                "pack_type": self.pack_type,
                "enqueued_at": clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
                "schema_version": SCHEMA_VERSION,
            },
            queue=self.lane.value,
            trace_id=self.trace_id,
        )
        return QueueMessage(body, group=self.tenant_id if ENV.DPP_SQS_GROUP_BY == "tenant" else None)


@PerProcess
def _joined() -> dict[Lane, JoinedSends]:
    return {lane: JoinedSends(partial(_sender, lane)) for lane in Lane}


def send_wakeup(wakeup: Wakeup) -> None:
    """Together with what other threads send meanwhile. Raises SendFailed, which leaves open whether the message is in
    the queue.
    """
    _joined()[wakeup.lane].send(wakeup.message())


def send_wakeups(wakeups: Sequence[Wakeup]) -> dict[uuid.UUID, SendFailed]:
    """The runs whose message is not known to be in the queue, each with why; ten a request."""
    failed: dict[uuid.UUID, SendFailed] = {}
    by_lane: dict[Lane, list[Wakeup]] = defaultdict(list)
    for wakeup in wakeups:
        by_lane[wakeup.lane].append(wakeup)
    for waiting in by_lane.values():
        for start in range(0, len(waiting), BATCH):
            some = waiting[start : start + BATCH]
            try:
                refused = _sender(some[0].lane).send_batch([wakeup.message() for wakeup in some])
            except SendFailed as error:
                refused = dict.fromkeys(range(len(some)), error)
            failed |= {some[at].run_id: error for at, error in refused.items()}
    return failed
