"""Queues made for one test, with a dead-letter queue behind them."""

import contextlib
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from dpp_project import constants
from dpp_project.aws import clients
from dpp_project.settings import ENV
from runs.submit import wake_worker

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@dataclass(frozen=True)
class Queues:
    runs_url: str
    express_url: str
    dlq_url: str

    @property
    def sqs(self) -> "SQSClient":
        return clients.sqs_client()

    def send(self, body: str, *, express: bool = False) -> str:
        url = self.express_url if express else self.runs_url
        return self.sqs.send_message(QueueUrl=url, MessageBody=body)["MessageId"]

    def counts(self, url: str) -> tuple[int, int]:
        """Visible and in flight."""
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return int(found["ApproximateNumberOfMessages"]), int(found["ApproximateNumberOfMessagesNotVisible"])

    def dead_bodies(self) -> list[str]:
        """What the DLQ holds; it is left there, visible."""
        found: dict[str, str] = {}
        while some := self.sqs.receive_message(QueueUrl=self.dlq_url, MaxNumberOfMessages=10, VisibilityTimeout=60).get(
            "Messages", []
        ):
            found |= {message["ReceiptHandle"]: message["Body"] for message in some}
        for receipt in found:
            self.sqs.change_message_visibility(QueueUrl=self.dlq_url, ReceiptHandle=receipt, VisibilityTimeout=0)
        return list(found.values())


@contextmanager
def queues(*, receives: int = constants.QUEUE_MAX_RECEIVES) -> Iterator[Queues]:
    name = f"gear-{uuid.uuid4().hex[:12]}"
    sqs = clients.sqs_client()
    dlq_url = sqs.create_queue(QueueName=f"{name}-dlq")["QueueUrl"]
    dlq_arn = sqs.get_queue_attributes(QueueUrl=dlq_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    redrive = json.dumps({"deadLetterTargetArn": dlq_arn, "maxReceiveCount": receives})
    runs_url, express_url = (
        sqs.create_queue(
            QueueName=f"{name}{end}",
            Attributes={"VisibilityTimeout": str(constants.QUEUE_VISIBILITY_SECONDS), "RedrivePolicy": redrive},
        )["QueueUrl"]
        for end in ("", "-express")
    )
    try:
        yield Queues(runs_url=runs_url, express_url=express_url, dlq_url=dlq_url)
    finally:
        for url in (runs_url, express_url, dlq_url):
            with contextlib.suppress(sqs.exceptions.QueueDoesNotExist):
                sqs.delete_queue(QueueUrl=url)


@pytest.fixture
def express(aws: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queues]:
    """An express queue, beside this process's queue of runs."""
    del aws
    with queues() as made:
        monkeypatch.setattr(wake_worker, "ENV", ENV.model_copy(update={"DPP_EXPRESS_QUEUE_URL": made.express_url}))
        yield made
        if (sender := wake_worker.express_sender.forget()) is not None:
            sender.close()
