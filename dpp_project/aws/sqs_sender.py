"""Sends to SQS with little CPU: boto3 would take a third of a submit's (docs/dependencies.md has the figures).

Of what boto3 does, sending one text to one known address needs a signature and a connection. A test compares every
request with what boto3 signs and sends, with session tokens and with credentials that renew themselves.

A send is tried twice, DPP_SQS_TIMEOUT_MS each, where the failure may pass: no connection, no answer, 5xx, throttling.
The queue may so take it twice, which is harmless: a message wakes a worker, and a run starts by compare-and-set. The
queue may also have taken a send that failed: the code that acts on the failure claims the run first.
"""

import http.client
import json
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.exceptions import BotoCoreError, NoCredentialsError

from dpp_project.aws import clients
from dpp_project.aws.connections import Connections
from dpp_project.aws.signing import Signer
from dpp_project.process_env import ENV
from dpp_project.processes.per_process import PerProcess

BATCH: Final = 10
PAUSE_SECONDS: Final = 0.05
_JSON: Final = "application/x-amz-json-1.0"
_PASSING: Final = frozenset(
    {"RequestThrottled", "ThrottlingException", "Throttling", "KmsThrottled", "ServiceUnavailable"}
)
_BAD_CHARACTERS: Final = "InvalidMessageContents"
_TOO_LONG: Final = re.compile(r"\b(?:shorter|longer) than \d+ bytes")
"""SQS says it of a message as of a batch, and under a code that means many other things too."""


@dataclass(frozen=True, slots=True)
class QueueMessage:
    body: str
    group: str | None = None
    """Fair queues: messages of one group do not delay those of the others."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    delay_seconds: int = 0

    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"MessageBody": self.body}
        if self.group is not None:
            fields["MessageGroupId"] = self.group
        if self.attributes:
            fields["MessageAttributes"] = {
                name: {"DataType": "String", "StringValue": value} for name, value in self.attributes.items()
            }
        return fields | ({"DelaySeconds": self.delay_seconds} if self.delay_seconds else {})


class SendFailed(Exception):  # noqa: N818  an outcome
    """The message is not known to be in the queue, and may be there all the same."""


class SendRefused(SendFailed):
    """SQS answered that it does not take the message: wrong queue, wrong key, wrong request."""


class ContentRefused(SendRefused):
    """SQS will never take what the message holds: a character that it does not know, or too much of it.

    Of a batch it may mean that its messages are too long together.
    """


class Unreachable(SendFailed):
    """No answer, or none that tells: a broken connection, a timeout, 5xx, throttling."""


class Sender:
    """Thread-safe. `credentials` is asked on each attempt, so that renewed ones are used."""

    def __init__(
        self, *, endpoint: str, queue_url: str, region: str, credentials: Callable[[], Any], timeout_seconds: float
    ) -> None:
        self._queue_url = queue_url
        self._credentials = credentials
        self._signer = Signer(endpoint, service="sqs", region=region)
        self._connections = Connections(endpoint, timeout_seconds=timeout_seconds)

    def send(self, message: QueueMessage) -> None:
        self._call("SendMessage", message.fields())

    def send_batch(self, messages: Sequence[QueueMessage]) -> dict[int, SendFailed]:
        """Up to ten at once. Answers the failures by position; raises when the request itself failed."""
        entries = [{"Id": str(at)} | message.fields() for at, message in enumerate(messages)]
        answer = self._call("SendMessageBatch", {"Entries": entries})
        return {
            int(entry["Id"]): _failure(
                entry["Code"], str(entry.get("Message", "")), is_refused=bool(entry.get("SenderFault"))
            )
            for entry in answer.get("Failed") or ()
        }

    def close(self) -> None:
        self._connections.close()

    def _call(self, action: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        body = json.dumps({"QueueUrl": self._queue_url, **fields}).encode()
        for attempts_left in range(clients.ATTEMPTS - 1, -1, -1):
            try:
                return _judge(*self._connections.exchange("POST", "/", self._signed(action, body), body))
            except Unreachable:
                if not attempts_left:
                    raise
            except (OSError, http.client.HTTPException, BotoCoreError) as error:
                if not attempts_left:
                    raise Unreachable(type(error).__name__) from error
            time.sleep(random.uniform(0, PAUSE_SECONDS))  # noqa: S311  spreads those that failed together
        raise AssertionError("the last attempt returns or raises")

    def _signed(self, action: str, body: bytes) -> dict[str, str]:
        headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": _JSON, "x-amzn-query-mode": "true"}
        return self._signer.signed(self._credentials(), "POST", "/", headers, body)


def _judge(status: int, content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if status == 200 and isinstance(answer, dict):
        return answer
    told = answer if isinstance(answer, dict) else {}
    code = str(told.get("__type", "")).rpartition("#")[2]
    failure = _failure(code, str(told.get("message", "")), is_refused=status < 500 and status not in {200, 429})
    raise type(failure)(f"HTTP {status} {code}".rstrip())


def _failure(code: str, text: str, *, is_refused: bool) -> SendFailed:
    """A throttled message is called the sender's fault too, and it may pass."""
    kind = code.rpartition(".")[2]
    if not is_refused or kind in _PASSING:
        return Unreachable(code)
    return ContentRefused(code) if kind == _BAD_CHARACTERS or _TOO_LONG.search(text) else SendRefused(code)


@PerProcess
def shared_sender() -> Sender:
    """This process's sender to the queue of runs."""
    return sqs_sender_to(ENV.DPP_QUEUE_URL)


def sqs_sender_to(queue_url: str) -> Sender:
    """A sender to one queue, for many threads and messages."""
    try:
        credentials = clients.aws_credentials()
    except NoCredentialsError as error:
        raise SendRefused("no AWS credentials are to be found") from error
    return Sender(
        endpoint=clients.sqs_client().meta.endpoint_url,
        queue_url=queue_url,
        region=ENV.AWS_REGION,
        credentials=credentials,
        timeout_seconds=clients.SQS_TIMEOUT_SECONDS,
    )
