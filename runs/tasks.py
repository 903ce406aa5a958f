"""The one task: a message says which run is due. Its kwargs are exactly the documented message (DPP-38)."""

import uuid
from typing import Any

from celery import shared_task, signals
from celery.exceptions import Reject

from dpp_project.process_env import ENV
from runs.submit import wake_worker
from runs.worker import execution
from runs.worker.leases import Message


@shared_task(name=wake_worker.TASK, bind=True)
def execute(self: Any, *, run_id: str, tenant_id: str, pack_type: str, enqueued_at: str, schema_version: str) -> None:
    del tenant_id, pack_type, enqueued_at, schema_version  # the row is the truth
    message = Message(queue_url=ENV.DPP_QUEUE_URL, receipt=self.request.properties["delivery_tag"])
    try:
        execution.execute(uuid.UUID(run_id), message=message)
    except execution.UnknownRun:
        raise Reject(run_id, requeue=False) from None  # left to redrive: the dead-letter queue keeps it for a person


@signals.worker_process_init.connect
def warm_the_box(**_: object) -> None:
    execution.box().warm()
