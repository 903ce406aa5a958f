"""One multipart upload: parts of 16 MiB, two of them on their way, the whole hashed on the way out."""

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from ops.workspaces.archive_store.failures import s3_unavailable
from ops.workspaces.drivers.base import DriverRefused

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PART_BYTES: Final = 16 << 20
PARTS_MAX: Final = 10_000
"""S3's own limit."""
IN_FLIGHT: Final = 2


class Parts:
    """Takes bytes and sends them. Leaving the block waits for what is on its way, so that an abort leaves nothing."""

    def __init__(
        self, client: "S3Client", where: dict[str, str], *, upload_id: str, part_bytes: int, bytes_max: int
    ) -> None:
        self._client = client
        self._where: dict[str, Any] = {**where, "UploadId": upload_id}
        self._part_bytes = part_bytes
        self._bytes_max = min(bytes_max, part_bytes * PARTS_MAX)
        self._kept = bytearray()
        self._sent: list[Future[dict[str, Any]]] = []
        self._digest = hashlib.sha256()
        self._pool = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="archive-part")
        self.bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, content: bytes) -> None:
        """Waits while two parts are on their way. Raises DriverUnavailable, and DriverRefused for too many bytes."""
        self._digest.update(content)
        self.bytes += len(content)
        if self.bytes > self._bytes_max:
            raise DriverRefused(f"the archive has more than {self._bytes_max} bytes", reason="ArchiveTooLarge")
        self._kept += content
        while len(self._kept) >= self._part_bytes:
            self._send(bytes(self._kept[: self._part_bytes]))
            del self._kept[: self._part_bytes]

    def finish(self) -> list[dict[str, Any]]:
        """Sends the last part. What S3 wants to hear of each when the upload is completed."""
        if self._kept or not self._sent:
            self._send(bytes(self._kept))
            self._kept.clear()
        return [part.result() for part in self._sent]

    def _send(self, content: bytes) -> None:
        if len(self._sent) >= IN_FLIGHT:
            self._sent[-IN_FLIGHT].result()
        self._sent.append(self._pool.submit(self._put, len(self._sent) + 1, content))

    def _put(self, number: int, content: bytes) -> dict[str, Any]:
        with s3_unavailable():
            answer: dict[str, Any] = dict(self._client.upload_part(**self._where, PartNumber=number, Body=content))
        sums = {name: value for name, value in answer.items() if name.startswith("Checksum") and name != "ChecksumType"}
        return {"PartNumber": number, "ETag": answer["ETag"], **sums}
