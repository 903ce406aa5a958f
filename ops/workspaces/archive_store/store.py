"""The archive bucket. One object: `{workspace_id}/{op_id}/home.tar.zst`, a GNU tar in one zstd frame.

Safe for threads. Every call ends: boto3's client has timeouts and two attempts.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, BinaryIO, Final

from botocore.exceptions import ClientError

from ops.workspaces.archive_store import frames, tar_walk
from ops.workspaces.archive_store.archives import (
    ArchiveHead,
    ArchiveIdentity,
    ListedArchive,
    OpenUpload,
    SentArchive,
    VerifiedArchive,
    identity_in,
    upload_in,
)
from ops.workspaces.archive_store.failures import KEY_TAKEN, NOT_FOUND, archive_corrupted, s3_status, s3_unavailable
from ops.workspaces.archive_store.parts import PART_BYTES, PARTS_MAX
from ops.workspaces.archive_store.uploading import ArchiveUpload
from ops.workspaces.drivers.base import DriverCorrupt

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef

OBJECT_BYTES_MAX: Final = PART_BYTES * PARTS_MAX


def _no_progress(_bytes: int) -> None:
    """For a caller that has no lease to keep."""


class ArchiveStore:
    """`progress` is called with the bytes of tar so far, at least once a MiB; what it raises ends the call."""

    def __init__(
        self,
        client: "S3Client",
        bucket: str,
        *,
        part_bytes: int = PART_BYTES,
        object_bytes_max: int = OBJECT_BYTES_MAX,
    ) -> None:
        self._client = client
        self.bucket = bucket
        self._part_bytes = part_bytes
        self._object_bytes_max = object_bytes_max

    def upload(
        self,
        key: str,
        identity: ArchiveIdentity,
        export: AbstractContextManager[BinaryIO],
        *,
        opened: Callable[[str], None],
        progress: Callable[[int], None] = _no_progress,
    ) -> SentArchive | None:
        """Write what `export` gives, unless an object lies there. `opened` gets the upload's id before any part goes.

        None: a whole upload of the same identity lies there, by an earlier attempt; `verify` it without what was sent.
        Raises DriverUnavailable, DriverCorrupt (KeyTaken: another identity's), DriverRefused (ArchiveTooLarge), what
        the export raises and what the callbacks raise; then this upload is aborted, or left to the orphan job.
        """
        attempt = ArchiveUpload(
            self._client, self.look, bucket=self.bucket, key=key, identity=identity, part_bytes=self._part_bytes
        )
        return attempt.run(export, bytes_max=self._object_bytes_max, opened=opened, progress=progress)

    def holds(self, key: str, identity: ArchiveIdentity) -> bool:
        """Whether a whole upload of this identity lies there. Raises DriverCorrupt (KeyTaken) for another's."""
        head = self.look(key)
        if head is not None and head.identity != identity:
            raise DriverCorrupt(f"another object lies at {key}", reason=KEY_TAKEN)
        return head is not None

    def verify(
        self,
        key: str,
        identity: ArchiveIdentity,
        sent: SentArchive | None,
        *,
        progress: Callable[[int], None] = _no_progress,
    ) -> VerifiedArchive:
        """Read it back whole: its identity, the end of its frame, every header of its tar, and what was sent, if known.

        Raises DriverCorrupt (KeyTaken, ArchiveNotFound, ArchiveCorrupted) and DriverUnavailable.
        """
        with self._opened(key) as answer:
            if identity_in(answer["Metadata"]) != identity:
                raise DriverCorrupt(f"another object lies at {key}", reason=KEY_TAKEN)
            raw = _Raw(answer)
            walked = tar_walk.walk_tar(_tar_chunks_with_progress(frames.decompressed_frames(raw.chunks()), progress))
        found = SentArchive(object_bytes=raw.bytes, tar_bytes=walked.bytes, sha256=raw.sha256)
        if sent is not None and found != sent:
            raise archive_corrupted(f"{key} is not what was sent")
        return VerifiedArchive(
            object_bytes=raw.bytes, tar_bytes=walked.bytes, members=walked.members, sha256=raw.sha256
        )

    def read(self, key: str, verified: VerifiedArchive) -> Iterator[bytes]:
        """The tar. Only the end of the iteration says that it is the verified one; before that nothing counts.

        Raises DriverCorrupt (ArchiveNotFound, ArchiveCorrupted) and DriverUnavailable.
        """
        with self._opened(key) as answer:
            raw, tar_bytes = _Raw(answer), 0
            if answer["ContentLength"] != verified.object_bytes:
                raise archive_corrupted(
                    f"{key} has {answer['ContentLength']} bytes, {verified.object_bytes} were verified"
                )
            for plain in frames.decompressed_frames(raw.chunks()):
                tar_bytes += len(plain)
                yield plain
            if (raw.sha256, tar_bytes) != (verified.sha256, verified.tar_bytes):
                raise archive_corrupted(f"{key} is not what was verified")

    def look(self, key: str) -> ArchiveHead | None:
        """None is a definite no: S3 answers 404 for a missing bucket too, and 403 where it does not want to say."""
        with s3_unavailable():
            try:
                found = self._client.head_object(Bucket=self.bucket, Key=key)
            except ClientError as error:
                if s3_status(error) != 404:
                    raise
                self._client.head_bucket(Bucket=self.bucket)
                return None
        return ArchiveHead(
            object_bytes=found["ContentLength"],
            identity=identity_in(found["Metadata"]),
            upload=upload_in(found["Metadata"]),
            written_at=found["LastModified"],
        )

    def list_archives(self, prefix: str) -> list[ListedArchive]:
        """All that begin so: of one workspace (`naming.archive_prefix`), or of all with an empty prefix."""
        with s3_unavailable():
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
            return [
                ListedArchive(key=one["Key"], object_bytes=one["Size"], written_at=one["LastModified"])
                for page in pages
                for one in page.get("Contents", [])
            ]

    def list_uploads(self, prefix: str = "") -> list[OpenUpload]:
        with s3_unavailable():
            pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=self.bucket, Prefix=prefix)
            return [
                OpenUpload(key=one["Key"], upload_id=one["UploadId"], begun_at=one["Initiated"])
                for page in pages
                for one in page.get("Uploads", [])
            ]

    def abort_upload(self, key: str, upload_id: str) -> bool:
        """Whether there was one; gone is as good. Raises DriverUnavailable."""
        with s3_unavailable():
            try:
                self._client.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload_id)
            except self._client.exceptions.NoSuchUpload:
                return False
        return True

    def delete(self, key: str) -> None:
        """Gone already is as good. Raises DriverUnavailable."""
        with s3_unavailable():
            self._client.delete_object(Bucket=self.bucket, Key=key)

    @contextlib.contextmanager
    def _opened(self, key: str) -> "Iterator[GetObjectOutputTypeDef]":
        with s3_unavailable():
            try:
                answer = self._client.get_object(Bucket=self.bucket, Key=key)
            except ClientError as error:
                if s3_status(error) != 404:
                    raise
                self._client.head_bucket(Bucket=self.bucket)
                raise DriverCorrupt(f"no object lies at {key}", reason=NOT_FOUND) from None
        with answer["Body"]:
            yield answer


class _Raw:
    """An object's bytes as they come, hashed and counted."""

    def __init__(self, answer: "GetObjectOutputTypeDef") -> None:
        self._body = answer["Body"]
        self._digest = hashlib.sha256()
        self.bytes = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def chunks(self) -> Iterator[bytes]:
        while True:
            with s3_unavailable():
                chunk = self._body.read(frames.READ_BYTES)
            if not chunk:
                return
            self._digest.update(chunk)
            self.bytes += len(chunk)
            yield chunk


def _tar_chunks_with_progress(chunks: Iterator[bytes], progress: Callable[[int], None]) -> Iterator[bytes]:
    done = 0
    for chunk in chunks:
        done += len(chunk)
        progress(done)
        yield chunk
