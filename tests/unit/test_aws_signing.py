"""Requests that we sign ourselves are, byte for byte, those that boto3 would sign and send."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from boto3.session import Session
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSPreparedRequest, AWSRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials, RefreshableCredentials
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from dpp_project.aws import clients, signing
from dpp_project.aws.signing import Signer
from dpp_project.aws.sqs_sender import QueueMessage, Sender
from runs.bucket.signed_bucket import SignedBucket
from runs.bucket.signed_put import SignedPut

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TARGETS = [
    ("http://127.0.0.1:4566", "http://127.0.0.1:4566/000000000000/dpp-runs", "us-east-1"),
    ("https://sqs.eu-west-1.amazonaws.com", "https://sqs.eu-west-1.amazonaws.com/123456789012/dpp-runs", "eu-west-1"),
    ("https://sqs.eu-west-1.amazonaws.com:443", "https://sqs.eu-west-1.amazonaws.com/1/dpp-runs", "eu-west-1"),
    ("http://Queues.internal:8443", "http://queues.internal:8443/1/dpp-runs", "eu-west-1"),
    ("https://[::1]:8443", "https://[::1]:8443/1/dpp-runs", "ap-northeast-2"),
]
KEYS = ["dpp/t_a/2026/02/28/01900000-0000-7000-8000-000000000001/pack_envelope.json", "a b+c/\ud55c\uae00~(1).md"]
BUCKETS = ["the-bucket", "a.bucket.with.dots"]
PLACES = [
    ("http://127.0.0.1:4566", "us-east-1"),
    ("https://store.internal:8443", "eu-west-1"),
    (None, "eu-west-1"),
    (None, "us-east-1"),
    (None, "cn-north-1"),
]
HEADERS = {"Content-Type": "text/plain", "x-amz-checksum-sha256": "sum"}
NAMES = some.sampled_from(["Content-Type", "X-Amz-Target", "x-amz-checksum-sha256", "x-amzn-query-mode", "X-Amz-Acl"])
PARTS = some.text("ab /+~._-%\ud55c", min_size=1, max_size=9).filter(lambda part: part.strip("./"))
TEXTS = some.text(some.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=30).map(str.strip)


def stands(monkeypatch: pytest.MonkeyPatch, at: datetime) -> None:
    """The time, for botocore and for us."""
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: at.replace(tzinfo=None))
    monkeypatch.setattr(signing, "_utc_now", lambda: f"{at:%Y%m%dT%H%M%SZ}")


@pytest.fixture(autouse=True, scope="module")
def _time_stands_still() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        stands(patch, AT)
        yield


class Wire:
    """Stands where the connections are, and keeps the requests instead of sending them."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def exchange(self, *request: Any) -> tuple[int, bytes]:
        self.sent.append(request)
        return 200, b"{}"


def on_a_wire(made: Any) -> Wire:
    made._connections = Wire()
    wire: Wire = made._connections
    return wire


def a_sender(endpoint: str, queue_url: str, region: str, credentials: Any) -> tuple[Sender, Wire]:
    made = Sender(
        endpoint=endpoint, queue_url=queue_url, region=region, credentials=lambda: credentials, timeout_seconds=1
    )
    return made, on_a_wire(made)


def boto3s(service: str, endpoint: str | None, region: str, token: str | None = None, **config: Any) -> Any:
    session = Session(aws_access_key_id="AKID", aws_secret_access_key="SECRET", aws_session_token=token)
    make: Any = session.client
    return make(service, region_name=region, endpoint_url=endpoint, **config)


def would_send(client: Any, operation: str, **parameters: Any) -> AWSPreparedRequest:
    seen: list[AWSPreparedRequest] = []

    def catch(request: AWSPreparedRequest, **_: Any) -> Any:
        seen.append(request)
        answer: Any = AWSResponse(request.url, 200, HTTPHeaders(), None)
        answer._content = b"" if client.meta.service_model.service_name == "s3" else b"{}"
        return answer

    client.meta.events.register("before-send", catch, unique_id="caught")
    getattr(client, operation)(**parameters)
    client.meta.events.unregister("before-send", unique_id="caught")
    return seen[0]


def as_text(headers: Any) -> dict[str, str]:
    return {name.lower(): value.decode() if isinstance(value, bytes) else str(value) for name, value in headers.items()}


def expect_same(wire: Wire, request: AWSPreparedRequest) -> None:
    (method, path, headers, body) = wire.sent[0]
    sent = as_text(request.headers)
    for unsigned in ("user-agent", "content-length", "amz-sdk-invocation-id", "amz-sdk-request"):
        del sent[unsigned]
    assert (method, path, body) == (request.method, urlsplit(str(request.url)).path, request.body)
    assert as_text(headers) == sent


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is slow
@given(
    service=some.sampled_from(["sqs", "s3"]),
    method=some.sampled_from(["POST", "PUT"]),
    path=some.lists(PARTS, max_size=3),
    headers=some.dictionaries(NAMES, TEXTS, max_size=4),
    body=some.sampled_from([b"", b"{}", b"\x00\xff" * 50]),
    token=some.none() | some.just("a/session+token=="),
)
def test_a_request_is_signed_as_botocore_signs_it(
    service: str, method: str, path: list[str], headers: dict[str, str], body: bytes, token: str | None
) -> None:
    url = "https://somewhere.internal:8443"
    # An SQS request has no path, which botocore would normalise and quote a second time.
    quoted = "/" + quote("/".join(path), safe="/-_.~") if service == "s3" else "/"
    credentials = Credentials("AKID", "SECRET", token)
    theirs: Any = AWSRequest(method, url + quoted, headers=headers, data=body)
    (S3SigV4Auth if service == "s3" else SigV4Auth)(credentials, service, "eu-west-1").add_auth(theirs)
    ours = Signer(url, service=service, region="eu-west-1").signed(credentials, method, quoted, headers, body)
    assert as_text(ours) == as_text(theirs.headers)


def test_the_key_is_derived_anew_with_the_day_and_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    url, tomorrow = "https://somewhere.internal", AT + timedelta(days=1)
    signer = Signer(url, service="sqs", region="eu-west-1")
    for at, secret in ((AT, "SECRET"), (tomorrow, "SECRET"), (tomorrow, "OTHER"), (AT, "SECRET")):
        stands(monkeypatch, at)
        theirs: Any = AWSRequest("POST", f"{url}/", data=b"x")
        SigV4Auth(Credentials("AKID", secret), "sqs", "eu-west-1").add_auth(theirs)
        ours = signer.signed(Credentials("AKID", secret), "POST", "/", {}, b"x")
        assert as_text(ours) == as_text(theirs.headers)


@pytest.mark.parametrize("token", [None, "a/session+token=="])
@pytest.mark.parametrize(("endpoint", "queue_url", "region"), TARGETS)
def test_publisher_sends_a_message_as_boto3_does(endpoint: str, queue_url: str, region: str, token: str | None) -> None:
    body = 'h\u00e9llo \ud55c\uae00 "quoted" \\ \n'
    made, wire = a_sender(endpoint, queue_url, region, Credentials("AKID", "SECRET", token))
    made.send(QueueMessage(body, group="t_acme"))
    theirs = boto3s("sqs", endpoint, region, token)
    expect_same(wire, would_send(theirs, "send_message", QueueUrl=queue_url, MessageBody=body, MessageGroupId="t_acme"))


def test_publisher_sends_a_batch_as_boto3_does() -> None:
    endpoint, queue_url, region = TARGETS[0]
    made, wire = a_sender(endpoint, queue_url, region, Credentials("AKID", "SECRET"))
    assert made.send_batch([QueueMessage("one"), QueueMessage("two", group="t_acme")]) == {}
    entries = [{"Id": "0", "MessageBody": "one"}, {"Id": "1", "MessageBody": "two", "MessageGroupId": "t_acme"}]
    theirs = boto3s("sqs", endpoint, region)
    expect_same(wire, would_send(theirs, "send_message_batch", QueueUrl=queue_url, Entries=entries))


def test_publisher_uses_the_credentials_that_were_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = iter(["FIRST", "SECOND"])

    def renew() -> dict[str, str]:
        return {"access_key": next(keys), "secret_key": "s", "token": "t", "expiry_time": "2026-03-01T13:00:00Z"}

    moved = [AT]
    renewing = RefreshableCredentials.create_from_metadata(renew(), renew, "test")
    monkeypatch.setattr(renewing, "_time_fetcher", lambda: moved[0])
    made, wire = a_sender(*TARGETS[0], None)
    made._credentials = renewing.get_frozen_credentials
    made.send(QueueMessage("one"))
    moved[0] += timedelta(minutes=55)
    made.send(QueueMessage("two"))
    used = [headers["Authorization"].split("Credential=")[1].split("/")[0] for _, _, headers, _ in wire.sent]
    assert used == ["FIRST", "SECOND"]


@pytest.mark.parametrize("bucket", BUCKETS)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_storage_puts_an_object_where_boto3_would_put_it(
    place: tuple[str | None, str], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = boto3s("s3", *place, config=clients.s3_config(place[0]))
    origins: list[str] = []
    monkeypatch.setattr("runs.bucket.signed_put.Connections", lambda origin, **_: origins.append(origin))
    made = SignedPut(client, bucket, lambda: Credentials("AKID", "SECRET"))
    for key in KEYS:
        wire = on_a_wire(made)
        assert made.put(key, b"{}", HEADERS)
        theirs = would_send(client, "put_object", Bucket=bucket, Key=key, Body=b"{}")
        assert origins[0] + wire.sent[0][1] == theirs.url


@pytest.mark.contract("DPP-21")
@pytest.mark.parametrize("token", [None, "a/session+token=="])
@pytest.mark.parametrize("bucket", BUCKETS)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_dpp_21_an_address_of_a_result_is_as_boto3_would_sign_it(
    place: tuple[str | None, str], bucket: str, token: str | None
) -> None:
    client = boto3s("s3", *place, token, config=clients.s3_config(place[0]))
    ours = SignedBucket.of(client, bucket)
    for key, seconds in itertools.product(KEYS, (1, 600)):
        theirs = client.generate_presigned_url("get_object", {"Bucket": bucket, "Key": key}, ExpiresIn=seconds)
        assert ours.address_to_get(key, Credentials("AKID", "SECRET", token), seconds=seconds) == theirs
        assert f"X-Amz-Expires={seconds}&" in theirs


@pytest.mark.parametrize("token", [None, "TOKEN"])
def test_storage_signs_an_object_over_its_bytes_and_headers(token: str | None) -> None:
    made = SignedPut(boto3s("s3", *PLACES[0]), "the-bucket", lambda: Credentials("AKID", "SECRET", token))
    wire = on_a_wire(made)
    assert made.put("x", b"{}", HEADERS)
    headers = as_text(wire.sent[0][2])
    signed = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    always = ["content-type", "host", "x-amz-checksum-sha256", "x-amz-content-sha256", "x-amz-date"]
    assert signed == always + (["x-amz-security-token"] if token else [])
    assert headers["x-amz-content-sha256"] == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert headers.get("x-amz-security-token") == token
