"""A PUT of ours goes where boto3's would go, and is signed over all that it says."""

from typing import Any

import pytest
from boto3.session import Session
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config

from runs.bucket.signed_put import Putter

KEYS = ["dpp/t_a/2026/02/28/01900000-0000-7000-8000-000000000001/pack_envelope.json", "a b+c/\ud55c\uae00~(1).md"]
PLACES = [
    ("http://127.0.0.1:4566", "us-east-1", "path"),
    ("https://store.internal:8443", "eu-west-1", "path"),
    (None, "eu-west-1", "auto"),
    (None, "us-east-1", "auto"),
]
HEADERS = {"Content-Type": "text/plain", "x-amz-checksum-sha256": "sum"}


def a_client(endpoint: str | None, region: str, style: Any, token: str | None = None) -> Any:
    return Session(aws_access_key_id="AKID", aws_secret_access_key="SECRET", aws_session_token=token).client(
        "s3",
        region_name=region,
        endpoint_url=endpoint,
        config=Config(signature_version="s3v4", s3={"addressing_style": style}),
    )


def theirs(client: Any, key: str) -> AWSPreparedRequest:
    seen: list[AWSPreparedRequest] = []

    def catch(request: AWSPreparedRequest, **_: Any) -> Any:
        seen.append(request)
        answer: Any = AWSResponse(request.url, 200, HTTPHeaders(), None)
        answer._content = b""
        return answer

    client.meta.events.register("before-send.s3", catch)
    client.put_object(Bucket="the-bucket", Key=key, Body=b"{}", ContentType="text/plain", ChecksumSHA256="sum")
    return seen[0]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_storage_a_put_goes_where_boto3_would_send_it(place: tuple[str | None, str, str], key: str) -> None:
    client = a_client(*place)
    assert Putter(client, "the-bucket").signed(key, b"{}", HEADERS).url == theirs(client, key).url


@pytest.mark.parametrize("token", [None, "TOKEN"])
def test_storage_a_put_is_signed_over_its_bytes_and_headers(token: str | None) -> None:
    client = a_client("http://127.0.0.1:4566", "us-east-1", "path", token)
    made = Putter(client, "the-bucket").signed("x", b"{}", HEADERS)
    signed = made.headers["Authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    always = ["content-type", "host", "x-amz-checksum-sha256", "x-amz-content-sha256", "x-amz-date"]
    assert signed == always + (["x-amz-security-token"] if token else [])
    assert made.headers["X-Amz-Content-SHA256"] == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert made.headers["X-Amz-Security-Token"] == token
