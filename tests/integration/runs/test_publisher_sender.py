"""The thin sender against a real queue, and against everything that can go wrong on the way."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.credentials import Credentials

from dpp_project.aws import clients
from dpp_project.aws.sqs_sender import ContentRefused, QueueMessage, Sender, SendFailed, SendRefused, Unreachable
from dpp_project.settings import ENV
from tests.gear.builders.queues import Queues, queues
from tests.gear.faults.proxy import Mode, Proxy
from tests.gear.faults.scripted import Scripted

MakeSender = Callable[..., Sender]


@pytest.fixture
def a_sender() -> Iterator[MakeSender]:
    made: list[Sender] = []

    def make(endpoint: str, queue_url: str, *, timeout_seconds: float = 2.0) -> Sender:
        made.append(
            Sender(
                endpoint=endpoint,
                queue_url=queue_url,
                region="us-east-1",
                credentials=lambda: Credentials("test", "test"),
                timeout_seconds=timeout_seconds,
            )
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def queue() -> Iterator[Queues]:
    with queues() as made:
        yield made


@pytest.fixture(scope="module")
def endpoint() -> str:
    return str(clients.sqs_client().meta.endpoint_url)


@pytest.fixture
def scripted(endpoint: str) -> Iterator[Scripted]:
    with Scripted(endpoint).running() as server:
        yield server


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    host, port = str(ENV.SQS_ENDPOINT_URL).removeprefix("http://").split(":")
    with Proxy(host, int(port)) as made:
        yield made


def received(queue: Queues) -> list[str]:
    found: list[str] = []
    while some := queue.sqs.receive_message(
        QueueUrl=queue.runs_url, MaxNumberOfMessages=10, WaitTimeSeconds=0, VisibilityTimeout=60
    ).get("Messages", []):
        for message in some:
            queue.sqs.delete_message(QueueUrl=queue.runs_url, ReceiptHandle=message["ReceiptHandle"])
        found += [message["Body"] for message in some]
    return sorted(found)


def test_publisher_sender_messages_arrive_as_sent(a_sender: MakeSender, queue: Queues, endpoint: str) -> None:
    made = a_sender(endpoint, queue.runs_url)
    made.send(QueueMessage("one \ud55c\uae00"))
    made.send(QueueMessage("two", group="t_acme"))
    assert made.send_batch([QueueMessage(f"of many {n}") for n in range(10)]) == {}
    assert received(queue) == sorted(["one \ud55c\uae00", "two", *(f"of many {n}" for n in range(10))])


def test_publisher_sender_keeps_its_connection(a_sender: MakeSender, queue: Queues, proxy: Proxy) -> None:
    made = a_sender(proxy.url, queue.runs_url)
    for n in range(5):
        made.send(QueueMessage(str(n)))
    assert proxy.connections == 1
    assert len(received(queue)) == 5


def test_publisher_sender_notices_a_connection_that_was_closed_while_idle(
    a_sender: MakeSender, queue: Queues, proxy: Proxy
) -> None:
    made = a_sender(proxy.url, queue.runs_url)
    made.send(QueueMessage("before"))
    with proxy.outage(Mode.REFUSE):
        pass
    made.send(QueueMessage("after"))
    assert received(queue) == ["after", "before"]


def test_publisher_sender_an_unknown_queue_is_refused_at_once(
    a_sender: MakeSender, scripted: Scripted, queue: Queues
) -> None:
    made = a_sender(scripted.url, queue.runs_url + "-unknown")
    with pytest.raises(SendRefused, match="QueueDoesNotExist"):
        made.send(QueueMessage("x"))
    assert scripted.actions == ["SendMessage"], "a refusal is not asked twice"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"{}"),
        (503, b"not json"),
        (429, b"{}"),
        (400, b'{"__type": "com.amazonaws.sqs#RequestThrottled"}'),
        (200, b"<html>"),
    ],
)
def test_publisher_sender_tries_a_passing_failure_twice(
    a_sender: MakeSender, scripted: Scripted, queue: Queues, status: int, body: bytes
) -> None:
    made = a_sender(scripted.url, queue.runs_url)
    with scripted.answering(status, body), pytest.raises(Unreachable):
        made.send(QueueMessage("x"))
    assert scripted.refused == 2
    assert received(queue) == []


def test_publisher_sender_succeeds_when_the_failure_passed(
    a_sender: MakeSender, scripted: Scripted, queue: Queues
) -> None:
    made = a_sender(scripted.url, queue.runs_url)
    exchange, calls = made._connections.exchange, [0]

    def failing_once(*request: Any) -> tuple[int, bytes]:
        calls[0] += 1
        return (500, b"{}") if calls[0] == 1 else exchange(*request)

    made._connections.exchange = failing_once  # type: ignore[method-assign,assignment]
    made.send(QueueMessage("x"))
    assert calls[0] == 2
    assert received(queue) == ["x"]


@pytest.mark.parametrize("status", [400, 403])
def test_publisher_sender_a_wrong_key_or_request_is_refused(
    a_sender: MakeSender, scripted: Scripted, queue: Queues, status: int
) -> None:
    made = a_sender(scripted.url, queue.runs_url)
    body = json.dumps({"__type": "com.amazon.coral.service#InvalidSecurity"}).encode()
    with scripted.answering(status, body), pytest.raises(SendRefused, match="InvalidSecurity"):
        made.send(QueueMessage("x"))
    assert scripted.refused == 1


@pytest.mark.parametrize("mode", [Mode.REFUSE, Mode.RESET, Mode.BLACK_HOLE])
def test_publisher_sender_gives_up_in_bounded_time(
    a_sender: MakeSender, queue: Queues, proxy: Proxy, mode: Mode
) -> None:
    made = a_sender(proxy.url, queue.runs_url, timeout_seconds=0.2)
    with proxy.outage(mode), pytest.raises(Unreachable):
        made.send(QueueMessage("x"))
    made._connections._timeout_seconds = 5
    made.send(QueueMessage("after the outage"))
    assert "after the outage" in received(queue)


def test_publisher_sender_an_answer_cut_short_is_a_failure_though_the_message_is_there(
    a_sender: MakeSender, queue: Queues, proxy: Proxy
) -> None:
    """Why whoever acts on a failed send claims the run first."""
    made = a_sender(proxy.url, queue.runs_url, timeout_seconds=1)
    proxy.cut_after(0)
    with pytest.raises(SendFailed):
        made.send(QueueMessage("taken"))
    proxy.cut_after(None)
    assert set(received(queue)) == {"taken"}


SHORTER = "One or more parameters are invalid. Reason: Message must be shorter than 262144 bytes."


def test_publisher_sender_tells_content_that_the_queue_refuses(a_sender: MakeSender, queue: Queues) -> None:
    made = a_sender(str(ENV.SQS_ENDPOINT_URL), queue.runs_url)
    failed = made.send_batch([QueueMessage("good"), QueueMessage("\x01"), QueueMessage("also good")])
    assert {at: type(error) for at, error in failed.items()} == {1: ContentRefused}
    with pytest.raises(ContentRefused, match="HTTP 400"):
        made.send(QueueMessage("x" * (1_024 * 1_024 + 1)))
    with pytest.raises(ContentRefused, match="BatchRequestTooLong"):
        made.send_batch([QueueMessage("x" * 600_000)] * 2)
    assert set(received(queue)) == {"good", "also good"}


def test_publisher_sender_carries_attributes_and_a_delay(a_sender: MakeSender, queue: Queues) -> None:
    made = a_sender(str(ENV.SQS_ENDPOINT_URL), queue.runs_url)
    made.send(QueueMessage("later", delay_seconds=600))
    made.send_batch([QueueMessage("now", group="t_first", attributes={"outboxId": "1", "eventType": "a.b.v1"})])
    message = queue.sqs.receive_message(QueueUrl=queue.runs_url, MessageAttributeNames=["All"])["Messages"]
    found = [(one["Body"], {k: v["StringValue"] for k, v in one["MessageAttributes"].items()}) for one in message]
    assert found == [("now", {"outboxId": "1", "eventType": "a.b.v1"})]


def test_publisher_sender_tells_which_entries_of_a_batch_failed(
    a_sender: MakeSender, scripted: Scripted, queue: Queues
) -> None:
    made = a_sender(scripted.url, queue.runs_url)
    answer = {
        "Successful": [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": "m"}],
        "Failed": [
            {"Id": "1", "SenderFault": True, "Code": "InvalidMessageContents"},
            {"Id": "2", "SenderFault": False, "Code": "InternalError"},
            {"Id": "3", "SenderFault": True, "Code": "InvalidParameterValue", "Message": SHORTER},
            {"Id": "4", "SenderFault": True, "Code": "InvalidParameterValue", "Message": "MessageGroupId is wrong"},
            {"Id": "5", "SenderFault": True, "Code": "RequestThrottled"},
        ],
    }
    with scripted.answering(200, json.dumps(answer).encode()):
        failed = made.send_batch([QueueMessage(text) for text in "abcdef"])
    assert {at: type(error) for at, error in failed.items()} == {
        1: ContentRefused,
        2: Unreachable,
        3: ContentRefused,
        4: SendRefused,
        5: Unreachable,
    }
    assert str(failed[1]) == "InvalidMessageContents"
