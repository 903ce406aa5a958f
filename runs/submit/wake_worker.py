"""Wakes a worker for a run: one message, whose kwargs are exactly the documented ones (DPP-38).

The message carries nothing that decides anything: the row does. It may be lost (the requeuer sends again), doubled or
late (a run starts by compare-and-set).
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from dpp_project import clock
from dpp_project.aws import sqs_sender
from dpp_project.aws.sqs_sender import BATCH, QueueMessage, SendFailed
from dpp_project.celery_sqs import celery_message
from dpp_project.process_env import ENV
from runs.models import Run

TASK: Final = "runs.tasks.execute"
QUEUE: Final = "runs"
SCHEMA_VERSION: Final = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wakeup:
    """The message that names a run to a worker."""

    run_id: uuid.UUID
    tenant_id: str
    pack_type: str
    trace_id: str | None

    @classmethod
    def of(cls, run: Run) -> Self:
        return cls(run_id=run.run_id, tenant_id=run.tenant_id, pack_type=run.pack_type, trace_id=run.trace_id)

    def message(self) -> QueueMessage:
        body = celery_message.pack(
            task=TASK,
            kwargs={
                "run_id": str(self.run_id),
                "tenant_id": self.tenant_id,
                "pack_type": self.pack_type,
                "enqueued_at": clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
                "schema_version": SCHEMA_VERSION,
            },
            queue=QUEUE,
            trace_id=self.trace_id,
        )
        return QueueMessage(body, group=self.tenant_id if ENV.DPP_SQS_GROUP_BY == "tenant" else None)


def send(wakeup: Wakeup) -> None:
    """Raises SendFailed, which leaves open whether the message is in the queue."""
    sqs_sender.shared().send(wakeup.message())


def send_many(wakeups: Sequence[Wakeup]) -> dict[uuid.UUID, SendFailed]:
    """The runs whose message is not known to be in the queue, each with why; ten a request."""
    failed: dict[uuid.UUID, SendFailed] = {}
    for start in range(0, len(wakeups), BATCH):
        some = wakeups[start : start + BATCH]
        try:
            refused = sqs_sender.shared().send_batch([wakeup.message() for wakeup in some])
        except SendFailed as error:
            refused = dict.fromkeys(range(len(some)), error)
        failed |= {some[at].run_id: error for at, error in refused.items()}
    return failed
