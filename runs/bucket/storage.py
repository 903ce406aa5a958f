"""The bucket: results by a key that the run alone determines, uploads by tenant, and addresses that end by themselves.

Presigned addresses use S3_PUBLIC_ENDPOINT_URL where clients reach the bucket by another name than we do.
"""

import base64
import contextlib
import hashlib
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from django.core.files.storage import storages
from storages.backends.s3 import S3Storage

from dpp_project import clock
from dpp_project.aws import clients, prefixes
from dpp_project.constants import PRESIGNED_URL_TTL_SECONDS
from dpp_project.process_env import ENV
from dpp_project.processes.per_process import PerProcess
from runs.bucket.signed_bucket import SignedBucket
from runs.bucket.signed_put import SignedPut

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

IF_ABSENT: Final = "*"
"""Of `If-None-Match`: the object is written where none is."""
ENVELOPE_NAME: Final = "pack_envelope.json"
ARTIFACTS: Final = "artifacts/"
ENVELOPE_CONTENT_TYPE: Final = "application/json; charset=utf-8"


def run_prefix(*, tenant_id: str, run_id: uuid.UUID, created_at: datetime) -> str:
    """All of a run's objects begin with it; retention deletes by it. The date is that of acceptance, in UTC."""
    return f"{prefixes.RESULTS}{tenant_id}/{created_at:%Y/%m/%d}/{run_id}/"


def envelope_key(*, tenant_id: str, run_id: uuid.UUID, created_at: datetime) -> str:
    return run_prefix(tenant_id=tenant_id, run_id=run_id, created_at=created_at) + ENVELOPE_NAME


def artifact_key(envelope_key: str, name: str) -> str:
    """Where a file beside this envelope lies; the envelope names those that there are."""
    return f"{envelope_key.removesuffix(ENVELOPE_NAME)}{ARTIFACTS}{name}"


def upload_prefix(tenant_id: str) -> str:
    """Where a tenant's own files lie; a pack reads from nowhere else."""
    return f"{prefixes.UPLOADS}{tenant_id}/"


def is_own_upload(tenant_id: str, key: str) -> bool:
    """Whether a key lies among the tenant's uploads, and leads nowhere else by its dots."""
    return key.startswith(upload_prefix(tenant_id)) and {"", ".", ".."}.isdisjoint(key.split("/"))


def upload_key(*, tenant_id: str, upload_id: uuid.UUID, filename: str, at: datetime) -> str:
    return f"{upload_prefix(tenant_id)}{at:%Y/%m/%d}/{upload_id}/{filename}"


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """What the bucket says of an object without giving it."""

    size: int
    content_type: str


class ObjectMissing(Exception):  # noqa: N818  a finding
    """The bucket answers, and the object is not in it."""


class ObjectTooLarge(Exception):  # noqa: N818  a finding
    """The object has more bytes than its reader wants."""


class ObjectsNotDeleted(Exception):  # noqa: N818  a finding
    """S3 answers, and refuses to delete some of the objects."""


class RunStorage(S3Storage):  # type: ignore[misc]  # untyped there
    """django-storages' S3 with what it lacks: checksums on writing, and addresses signed for more than reading.

    One client for the whole process: the stock one builds a resource for each thread, which costs 40 ms and 10 MB.
    """

    bucket_name: str
    endpoint_url: str | None
    public_endpoint_url: str | None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._puts: PerProcess[dict[tuple[str | None, str], SignedPut]] = PerProcess(dict)
        self._public: PerProcess[dict[tuple[str | None, str], SignedBucket]] = PerProcess(dict)

    def get_default_settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = super().get_default_settings()
        return settings | {"public_endpoint_url": None, "client_config": clients.s3_config(ENV.S3_ENDPOINT_URL)}

    def put(self, key: str, content: bytes, *, content_type: str) -> str:
        """Write the object whole, or raise; S3 checks the bytes against their hash, which is answered as hex."""
        digest = hashlib.sha256(content)
        checksum = base64.b64encode(digest.digest()).decode("ascii")
        if not self._put_at_once(key, content, {"Content-Type": content_type, "x-amz-checksum-sha256": checksum}):
            self.client().put_object(
                Bucket=self.bucket_name,
                Key=key,
                Body=content,
                ContentType=content_type,
                ChecksumSHA256=checksum,
            )
        return digest.hexdigest()

    def read(self, key: str, *, max_bytes: int) -> bytes:
        """The object's bytes. Raises ObjectMissing, ObjectTooLarge, or what boto3 raises when S3 does not answer."""
        try:
            answer = self.client().get_object(Bucket=self.bucket_name, Key=key)
        except ClientError as error:
            if _code(error) == "NoSuchKey":
                raise ObjectMissing(key) from None
            raise
        with answer["Body"] as body:
            if answer["ContentLength"] > max_bytes:
                raise ObjectTooLarge(key)
            return body.read()

    def head(self, key: str) -> ObjectHead | None:
        """None only if the object is definitely not there; anything less definite raises.

        S3 answers 404 for a missing bucket just as well, and money hangs on the answer (RESULT_LOST): so the bucket is
        asked for before a 404 is believed.
        """
        client = self.client()
        try:
            found = client.head_object(Bucket=self.bucket_name, Key=key)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                raise
            client.head_bucket(Bucket=self.bucket_name)
            return None
        return ObjectHead(size=found["ContentLength"], content_type=found["ContentType"])

    def delete_prefix(self, prefix: str) -> int:
        """Delete every object that begins so; how many there were. Safe to repeat. Raises ObjectsNotDeleted."""
        client, count = self.client(), 0
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket_name, Prefix=prefix):
            keys = [{"Key": found["Key"]} for found in page.get("Contents", [])]
            if keys:
                answer = client.delete_objects(Bucket=self.bucket_name, Delete={"Objects": keys, "Quiet": True})  # type: ignore[typeddict-item]
                if failed := answer.get("Errors"):
                    code = failed[0].get("Code")
                    raise ObjectsNotDeleted(f"S3 did not delete {len(failed)} objects, the first with {code}")
                count += len(keys)
        return count

    def presign_get(self, key: str, *, seconds: int) -> str:
        return self._public_bucket().address_to_get(key, clients.aws_credentials()(), seconds=seconds)

    def presign_put(self, key: str, *, content_type: str, size: int, seconds: int) -> str:
        """Length, type and IF_ABSENT are signed: S3 refuses another body than the one announced, and a second one."""
        return self._public_client().generate_presigned_url(
            "put_object",
            Params={
                "Bucket": self.bucket_name,
                "Key": key,
                "ContentType": content_type,
                "ContentLength": size,
                "IfNoneMatch": IF_ABSENT,
            },
            ExpiresIn=seconds,
        )

    def warm(self) -> None:
        """Make what a first `put` would: threads that begin at once would make one each."""
        with contextlib.suppress(BotoCoreError):  # no credentials yet; the first `put` asks again
            self._signed_put()

    def client(self) -> "S3Client":
        return clients.s3_client(self.endpoint_url)

    def _public_bucket(self) -> SignedBucket:
        made, where = self._public(), (self.public_endpoint_url or self.endpoint_url, self.bucket_name)
        if where not in made:
            made[where] = SignedBucket.of(self._public_client(), self.bucket_name)
        return made[where]

    def _public_client(self) -> "S3Client":
        return clients.s3_client(self.public_endpoint_url or self.endpoint_url)

    def close(self) -> None:
        """The idle connections of this process's own PUTs. The next PUT opens others."""
        for made in (self._puts.forget() or {}).values():
            made.close()

    def _put_at_once(self, key: str, content: bytes, headers: dict[str, str]) -> bool:
        try:
            return self._signed_put().put(key, content, headers)
        except NoCredentialsError:
            return False

    def _signed_put(self) -> SignedPut:
        credentials = clients.aws_credentials()
        made, where = self._puts(), (self.endpoint_url, self.bucket_name)
        if where not in made:
            made[where] = SignedPut(self.client(), self.bucket_name, credentials)
        return made[where]


def shared_run_storage() -> RunStorage:
    """The bucket that the settings name."""
    storage: Any = storages["default"]
    found: RunStorage = storage
    return found


def seconds_to_sign(*, retention_until: datetime) -> int:
    """How long an address may live: ten minutes, less where the object itself has less. Zero or below: not at all."""
    left = int((retention_until - clock.now()).total_seconds())
    return min(PRESIGNED_URL_TTL_SECONDS, left)


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
