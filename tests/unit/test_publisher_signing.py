"""What we send is, byte for byte, what boto3 would sign and send."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from boto3.session import Session
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials, RefreshableCredentials

from dpp_project.aws import sqs_sender
from dpp_project.aws.sqs_sender import Message, Sender

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TARGETS = [
    ("http://127.0.0.1:4566", "http://127.0.0.1:4566/000000000000/dpp-runs", "us-east-1"),
    ("https://sqs.eu-west-1.amazonaws.com", "https://sqs.eu-west-1.amazonaws.com/123456789012/dpp-runs", "eu-west-1"),
    ("https://sqs.eu-west-1.amazonaws.com:443", "https://sqs.eu-west-1.amazonaws.com/1/dpp-runs", "eu-west-1"),
    ("http://queues.internal:8443", "http://queues.internal:8443/1/dpp-runs", "eu-west-1"),
    ("https://queues.internal", "https://queues.internal/1/dpp-runs", "ap-northeast-2"),
]
BODIES = ["plain", 'h\u00e9llo \ud55c\uae00 "quoted" \\ \n', "x" * 2_000]


def stands(monkeypatch: pytest.MonkeyPatch, at: datetime) -> None:
    """The time, for them and for us."""
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: at.replace(tzinfo=None))
    monkeypatch.setattr(sqs_sender, "_utc_now", lambda: f"{at:%Y%m%dT%H%M%SZ}")


@pytest.fixture(autouse=True)
def _time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    stands(monkeypatch, AT)


class Wire:
    """Stands where the connections are, and keeps what would have been sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, dict[str, str]]] = []

    def post(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        self.sent.append((body, headers))
        return 200, b"{}"


def ours(endpoint: str, queue_url: str, region: str, credentials: Any) -> tuple[Sender, Wire]:
    made = Sender(
        endpoint=endpoint, queue_url=queue_url, region=region, credentials=lambda: credentials, timeout_seconds=1
    )
    wire = Wire()
    made._connections = wire  # type: ignore[assignment]
    return made, wire


def theirs(
    endpoint: str, region: str, token: str | None, operation: str, *, secret: str = "SECRET", **parameters: Any
) -> AWSPreparedRequest:
    client = Session(aws_access_key_id="AKID", aws_secret_access_key=secret, aws_session_token=token).client(
        "sqs", region_name=region, endpoint_url=endpoint
    )
    seen: list[AWSPreparedRequest] = []

    def catch(request: AWSPreparedRequest, **_: Any) -> Any:
        seen.append(request)
        answer: Any = AWSResponse(request.url, 200, HTTPHeaders(), None)
        answer._content = b'{"Successful": [], "Failed": []}'
        return answer

    client.meta.events.register("before-send.sqs", catch)
    getattr(client, operation)(**parameters)
    return seen[0]


def text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def expect_same(wire: Wire, request: AWSPreparedRequest, url: str) -> None:
    body, headers = wire.sent[0]
    signed = {name.lower(): text(value) for name, value in request.headers.items()}
    assert request.url == url + "/"
    assert body == request.body
    assert headers["Authorization"] == signed["authorization"]
    assert {name.lower(): value for name, value in headers.items()} == {
        name: value
        for name, value in signed.items()
        if name not in {"user-agent", "content-length", "amz-sdk-invocation-id", "amz-sdk-request"}
    }


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("token", [None, "a/session+token=="])
@pytest.mark.parametrize(("endpoint", "queue_url", "region"), TARGETS)
def test_publisher_signs_a_message_as_boto3_does(
    endpoint: str, queue_url: str, region: str, token: str | None, body: str
) -> None:
    made, wire = ours(endpoint, queue_url, region, Credentials("AKID", "SECRET", token))
    made.send(Message(body, group="t_acme"))
    request = theirs(
        endpoint, region, token, "send_message", QueueUrl=queue_url, MessageBody=body, MessageGroupId="t_acme"
    )
    expect_same(wire, request, endpoint)


def test_publisher_signs_a_batch_as_boto3_does() -> None:
    endpoint, queue_url, region = TARGETS[0]
    made, wire = ours(endpoint, queue_url, region, Credentials("AKID", "SECRET"))
    assert made.send_batch([Message("one"), Message("two", group="t_acme")]) == {}
    request = theirs(
        endpoint,
        region,
        None,
        "send_message_batch",
        QueueUrl=queue_url,
        Entries=[
            {"Id": "0", "MessageBody": "one"},
            {"Id": "1", "MessageBody": "two", "MessageGroupId": "t_acme"},
        ],
    )
    expect_same(wire, request, endpoint)


def test_publisher_uses_the_credentials_that_were_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = iter(["FIRST", "SECOND"])

    def renew() -> dict[str, str]:
        return {
            "access_key": next(keys),
            "secret_key": "s",
            "token": "t",
            "expiry_time": "2026-03-01T13:00:00Z",
        }

    moved = [datetime(2026, 3, 1, 12, 0, tzinfo=UTC)]
    renewing = RefreshableCredentials.create_from_metadata(renew(), renew, "test")
    monkeypatch.setattr(renewing, "_time_fetcher", lambda: moved[0])
    monkeypatch.setattr(sqs_sender, "ATTEMPTS", 1)
    endpoint, queue_url, region = TARGETS[0]
    made, wire = ours(endpoint, queue_url, region, None)
    made._credentials = renewing.get_frozen_credentials
    made.send(Message("one"))
    moved[0] = datetime(2026, 3, 1, 12, 55, tzinfo=UTC)
    made.send(Message("two"))
    used = [headers["Authorization"].split("Credential=")[1].split("/")[0] for _, headers in wire.sent]
    assert used == ["FIRST", "SECOND"]


def test_publisher_derives_its_key_anew_with_the_day_and_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, queue_url, region = TARGETS[0]
    made, wire = ours(endpoint, queue_url, region, None)
    tomorrow = AT + timedelta(days=1)
    for at, secret in ((AT, "SECRET"), (tomorrow, "SECRET"), (tomorrow, "OTHER"), (AT, "SECRET")):
        stands(monkeypatch, at)
        monkeypatch.setattr(made, "_credentials", lambda secret=secret: Credentials("AKID", secret))
        made.send(Message("x"))
        request = theirs(endpoint, region, None, "send_message", secret=secret, QueueUrl=queue_url, MessageBody="x")
        expect_same(wire, request, endpoint)
        wire.sent.clear()
