"""Writes an archive once: whole, at a key that held nothing, or not at all.

The order: the upload is opened and told, so that a row can name it; the parts; the end of the export, which says
whether the tar is whole; only then `CompleteMultipartUpload` with `If-None-Match: *`. A death at any point leaves an
open upload, which the orphan job aborts by its row, or a whole object, which the next attempt finds by its identity.
"""

import contextlib
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ops.workspaces.archive_store import frames
from ops.workspaces.archive_store.archives import ArchiveHead, ArchiveIdentity, SentArchive
from ops.workspaces.archive_store.failures import (
    KEY_TAKEN,
    S3_ERRORS,
    archive_corrupted,
    s3_failure_said,
    s3_status,
    s3_unavailable,
)
from ops.workspaces.archive_store.parts import Parts
from ops.workspaces.drivers.base import DriverCorrupt, DriverUnavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

COMPLETIONS: Final = 3
"""How often it is asked for while no answer says how it went. Each time boto3 asks twice."""
CONTENT_TYPE: Final = "application/zstd"
Look = Callable[[str], ArchiveHead | None]


class ArchiveUpload:
    """One attempt to write one archive."""

    def __init__(
        self, client: "S3Client", look: Look, *, bucket: str, key: str, identity: ArchiveIdentity, part_bytes: int
    ) -> None:
        self._client = client
        self._look = look
        self._where: dict[str, Any] = {"Bucket": bucket, "Key": key}
        self._key = key
        self._identity = identity
        self._part_bytes = part_bytes
        self._nonce = uuid.uuid4().hex

    def run(
        self,
        export: AbstractContextManager[BinaryIO],
        *,
        bytes_max: int,
        opened: Callable[[str], None],
        progress: Callable[[int], None],
    ) -> SentArchive | None:
        upload_id = self._open()
        try:
            opened(upload_id)
            parts = Parts(
                self._client, self._where, upload_id=upload_id, part_bytes=self._part_bytes, bytes_max=bytes_max
            )
            with parts:
                tar_bytes = _pour(export, parts, progress)
                sums = parts.finish()
            progress(tar_bytes)
            sent = SentArchive(object_bytes=parts.bytes, tar_bytes=tar_bytes, sha256=parts.sha256)
            is_ours = self._complete(upload_id, sums, sent)
        except BaseException:
            self._abort(upload_id)
            raise
        if is_ours:
            return sent
        self._abort(upload_id)
        return None

    def _open(self) -> str:
        with s3_unavailable():
            return self._client.create_multipart_upload(
                **self._where, ContentType=CONTENT_TYPE, Metadata=self._identity.metadata(self._nonce)
            )["UploadId"]

    def _complete(self, upload_id: str, sums: list[dict[str, Any]], sent: SentArchive) -> bool:
        """True: the object there is this upload's. False: it is an earlier attempt's.

        After an error, or an answer without an ETag, the object's head says whether S3 completed the upload.
        """
        unsettled = "it gave no ETag"
        for _ in range(COMPLETIONS):
            is_refused = False
            try:
                answer = self._client.complete_multipart_upload(
                    **self._where,
                    UploadId=upload_id,
                    MultipartUpload={"Parts": sums},  # type: ignore[typeddict-item]
                    MpuObjectSize=sent.object_bytes,
                    IfNoneMatch="*",
                )
            except S3_ERRORS as error:
                unsettled, is_refused = s3_failure_said(error), 400 <= (s3_status(error) or 500) < 500
            else:
                if answer.get("ETag"):
                    return True
            if (found := self._look(self._key)) is not None:
                return self._is_ours(found, sent)
            if is_refused:
                break  # a conflict, or the orphan job aborted this upload: only a new one helps
        raise DriverUnavailable(f"S3 did not complete the archive ({unsettled})")

    def _is_ours(self, found: ArchiveHead, sent: SentArchive) -> bool:
        if found.identity != self._identity:
            raise DriverCorrupt(f"another object lies at {self._key}", reason=KEY_TAKEN)
        if found.upload != self._nonce:
            return False
        if found.object_bytes != sent.object_bytes:
            raise archive_corrupted(f"{self._key} has {found.object_bytes} bytes, {sent.object_bytes} were sent")
        return True

    def _abort(self, upload_id: str) -> None:
        """What cannot be aborted now is the orphan job's."""
        with contextlib.suppress(*S3_ERRORS):
            self._client.abort_multipart_upload(**self._where, UploadId=upload_id)


def _pour(export: AbstractContextManager[BinaryIO], parts: Parts, progress: Callable[[int], None]) -> int:
    """Through zstd into the parts. Leaving the export is where a tar that is not whole says so."""
    frame, tar_bytes = frames.frame_compressor(), 0
    with export as tar:
        while plain := tar.read(frames.READ_BYTES):
            tar_bytes += len(plain)
            progress(tar_bytes)
            if packed := frame.compress(plain):
                parts.write(packed)
    parts.write(frame.flush())
    return tar_bytes
