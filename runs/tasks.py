"""The one task: a message says that a run is due. Its kwargs are exactly the documented message (DPP-38)."""

import gc
import uuid
from typing import Any

from celery import shared_task, signals
from celery.exceptions import Reject

from dpp_project.aws import clients
from dpp_project.stores import redis
from runs.bucket import storage
from runs.submit import wake_worker
from runs.submit.wake_worker import Lane
from runs.worker import execution, leases
from runs.worker.leases import WakingMessage
from runs.worker.starting import UnknownRun


@shared_task(name=wake_worker.TASK, bind=True)
def execute(self: Any, *, run_id: str, tenant_id: str, pack_type: str, enqueued_at: str, schema_version: str) -> None:
    del tenant_id, pack_type, enqueued_at, schema_version  # the row is the truth
    lane = Lane(self.request.delivery_info["routing_key"])
    message = WakingMessage(queue_url=lane.url, receipt=self.request.properties["delivery_tag"])
    try:
        execution.execute_run(uuid.UUID(run_id), message=message, in_turn=lane is Lane.RUNS)
    except UnknownRun:
        raise Reject(run_id, requeue=False) from None  # left to redrive: the dead-letter queue keeps it for a person


@signals.worker_init.connect
def make_what_the_slots_share(**_: object) -> None:
    """Before they start: the first runs come all at once, and each would make an S3 client of 6 MB."""
    execution.box().warm()
    leases.keeper()
    storage.shared_run_storage().warm()
    clients.sqs_client()
    redis.redis_client()
    gc.collect()
    gc.freeze()  # what is loaded by now stays, and no collection need look at it again
