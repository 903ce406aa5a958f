"""The bucket: checksums, definite answers, and what a presigned address allows."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3
from botocore.exceptions import BotoCoreError, ClientError
from botocore.stub import Stubber

from dpp_project import clock as clock_module
from dpp_project.aws.connections import Connections
from dpp_project.clock import FixedClock
from runs.bucket import storage
from runs.bucket.signed_put import SignedPut
from runs.bucket.storage import ObjectHead, ObjectMissing, ObjectTooLarge, RunStorage

RUN_ID = uuid.UUID("01900000-0000-7000-8000-000000000001")
AT = datetime(2026, 2, 28, 23, 59, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _bucket(aws: str) -> None:
    """The bucket is there."""


@pytest.fixture
def bucket() -> RunStorage:
    return storage.shared_run_storage()


@pytest.fixture
def key(bucket: RunStorage) -> Iterator[str]:
    prefix = f"dpp/t_{uuid.uuid4().hex[:12]}/"
    yield f"{prefix}x.json"
    bucket.delete_prefix(prefix)


@pytest.mark.contract("DPP-33")
def test_storage_key_of_an_envelope_is_made_of_the_run_alone() -> None:
    made = storage.envelope_key(tenant_id="t_acme", run_id=RUN_ID, created_at=AT)
    assert made == f"dpp/t_acme/2026/02/28/{RUN_ID}/pack_envelope.json"


CHECKSUM = "RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o="


@pytest.mark.contract("DPP-33")
def test_storage_put_gives_s3_the_checksum_to_check(bucket: RunStorage, key: str) -> None:
    bucket.put(key, b"{}", content_type=storage.ENVELOPE_CONTENT_TYPE)
    stands = bucket.client().head_object(Bucket=bucket.bucket_name, Key=key, ChecksumMode="ENABLED")
    assert (stands["ChecksumSHA256"], stands["ContentType"]) == (CHECKSUM, storage.ENVELOPE_CONTENT_TYPE)


@pytest.mark.contract("DPP-33")
@pytest.mark.parametrize(("status", "answer"), [(503, b""), (307, b""), (403, b"<Error/>")])
def test_storage_what_does_not_go_at_once_is_left_to_boto3(
    status: int, answer: bytes, bucket: RunStorage, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connections, "exchange", lambda *_: (status, answer))
    bucket.put(key, b"{}", content_type=storage.ENVELOPE_CONTENT_TYPE)
    assert bucket.read(key, max_bytes=2) == b"{}"


@pytest.mark.contract("DPP-33")
def test_storage_boto3_gives_s3_the_checksum_to_check(
    bucket: RunStorage, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SignedPut, "put", lambda *_: False)
    with Stubber(bucket.client()) as stub:
        stub.add_response(
            "put_object",
            {},
            {
                "Bucket": bucket.bucket_name,
                "Key": key,
                "Body": b"{}",
                "ContentType": "application/json; charset=utf-8",
                "ChecksumSHA256": CHECKSUM,
            },
        )
        digest = bucket.put(key, b"{}", content_type=storage.ENVELOPE_CONTENT_TYPE)
    assert digest == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_storage_what_was_put_is_read_and_found(bucket: RunStorage, key: str) -> None:
    bucket.put(key, b"{}", content_type=storage.ENVELOPE_CONTENT_TYPE)
    assert bucket.read(key, max_bytes=2) == b"{}"
    assert bucket.head(key) == ObjectHead(size=2, content_type="application/json; charset=utf-8")
    with pytest.raises(ObjectTooLarge):
        bucket.read(key, max_bytes=1)


def test_storage_missing_is_a_definite_answer(bucket: RunStorage, key: str) -> None:
    assert bucket.head(key) is None
    with pytest.raises(ObjectMissing):
        bucket.read(key, max_bytes=1)


@pytest.mark.contract("DPP-42")
def test_storage_a_missing_bucket_is_not_a_missing_object(bucket: RunStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "bucket_name", "there-is-no-such-bucket")
    with pytest.raises(ClientError):
        bucket.head("x")
    with pytest.raises(ClientError):
        bucket.read("x", max_bytes=1)


@pytest.mark.contract("DPP-42")
def test_storage_no_answer_is_not_a_missing_object(bucket: RunStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "endpoint_url", "http://127.0.0.1:1")
    with pytest.raises(BotoCoreError):
        bucket.head("x")


def test_storage_delete_prefix_takes_all_below_it_and_nothing_beside(bucket: RunStorage, key: str) -> None:
    folder = key.removesuffix("x.json")
    for name in ("run/a", "run/b/c", "runner/d"):
        bucket.put(folder + name, b"", content_type="text/plain")
    assert bucket.delete_prefix(f"{folder}run/") == 2
    assert bucket.delete_prefix(f"{folder}run/") == 0
    assert bucket.head(f"{folder}runner/d") is not None


def parameters(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


@pytest.mark.contract("DPP-21")
def test_storage_presigned_get_says_when_it_ends_and_works(bucket: RunStorage, key: str) -> None:
    bucket.put(key, b"{}", content_type=storage.ENVELOPE_CONTENT_TYPE)
    address = bucket.presign_get(key, seconds=600)
    assert parameters(address)["X-Amz-Expires"] == "600"
    assert parameters(address)["X-Amz-Algorithm"] == "AWS4-HMAC-SHA256"
    assert urllib3.request("GET", address).data == b"{}"


@pytest.mark.contract("DPP-65")
def test_storage_presigned_put_signs_length_and_type(bucket: RunStorage, key: str) -> None:
    address = bucket.presign_put(key, content_type="image/png", size=3, seconds=600)
    assert parameters(address)["X-Amz-SignedHeaders"] == "content-length;content-type;host;if-none-match"
    assert parameters(address)["X-Amz-Expires"] == "600"
    headers = {"Content-Type": "image/png", "If-None-Match": "*"}
    answer = urllib3.request("PUT", address, body=b"png", headers=headers)
    assert answer.status == 200
    assert bucket.head(key) == ObjectHead(size=3, content_type="image/png")


def test_storage_presigned_addresses_use_the_public_name(
    bucket: RunStorage, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "public_endpoint_url", "https://files.example.com")
    for address in (
        bucket.presign_get(key, seconds=60),
        bucket.presign_put(key, content_type="image/png", size=3, seconds=60),
    ):
        assert address.startswith(f"https://files.example.com/{bucket.bucket_name}/{key}?")


@pytest.mark.contract("DPP-21")
@pytest.mark.parametrize(
    ("left_seconds", "signed_seconds"), [(86_400, 600), (600, 600), (599, 599), (1, 1), (0, 0), (-5, -5)]
)
def test_storage_an_address_never_outlives_the_retention(
    clock: FixedClock, left_seconds: int, signed_seconds: int
) -> None:
    until = clock_module.now() + timedelta(seconds=left_seconds)
    assert storage.seconds_to_sign(retention_until=until) == signed_seconds


def test_storage_one_client_serves_all_threads(bucket: RunStorage) -> None:
    made: Any = bucket.client()
    assert bucket.client() is made
