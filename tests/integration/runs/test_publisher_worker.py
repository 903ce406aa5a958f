"""A message made by hand, sent by the thin sender, is executed by a real Celery worker."""

from pathlib import Path

import pytest
from botocore.credentials import Credentials

from dpp_project.aws import clients
from dpp_project.aws.sqs_sender import QueueMessage, Sender
from dpp_project.celery_sqs import celery_message
from dpp_project.settings import ENV
from tests.gear.builders.queues import queues
from tests.gear.servers.worker import worker


@pytest.mark.contract("DPP-25", "DPP-38")
def test_publisher_messages_are_executed_by_a_worker_with_their_trace(tmp_path: Path) -> None:
    endpoint = str(clients.sqs_client().meta.endpoint_url)
    with queues() as queue:
        sender = Sender(
            endpoint=endpoint,
            queue_url=queue.runs_url,
            region=ENV.AWS_REGION,
            credentials=lambda: Credentials("test", "test"),
            timeout_seconds=2,
        )
        try:
            for name in ("one", "two"):
                body = celery_message.pack_celery_message(
                    task="gear.work", kwargs={"name": name}, queue="runs", trace_id=f"t_{name}"
                )
                sender.send(QueueMessage(body, group="t_acme"))
        finally:
            sender.close()
        with worker(tmp_path, endpoint=endpoint, queue_url=queue.runs_url) as running:
            running.wait_for("one", "two")
            traces = {line["name"]: line["trace_id"] for line in running.lines() if line["event"] == "ended"}
    assert traces == {"one": "t_one", "two": "t_two"}
