"""Files for packs that read files (DPP-65): the tenant puts them into its own prefix, straight into the bucket."""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dpp_project import clock
from dpp_project.constants import PRESIGNED_URL_TTL_SECONDS
from runs.bucket import storage

MAX_UPLOAD_BYTES: Final = 52_428_800
CONTENT_TYPES: Final = (
    *("image/png", "image/jpeg", "image/tiff", "image/webp", "image/bmp", "application/pdf"),
    *("text/plain", "text/csv", "application/json"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """Room for one file. Nothing is there until it is put."""

    bucket: str
    key: str
    url: str
    headers: dict[str, str]
    expires_at: datetime


def prepare(*, tenant_id: str, filename: str, content_type: str, size_bytes: int) -> Upload:
    """An address for exactly this length and type, once, for ten minutes. The id in its key cannot be guessed."""
    now, bucket = clock.now(), storage.shared()
    key = storage.upload_key(tenant_id=tenant_id, upload_id=uuid.uuid4(), filename=filename, at=now)
    return Upload(
        bucket=bucket.bucket_name,
        key=key,
        url=bucket.presign_put(key, content_type=content_type, size=size_bytes, seconds=PRESIGNED_URL_TTL_SECONDS),
        headers={
            "Content-Type": content_type,
            "Content-Length": str(size_bytes),
            "If-None-Match": storage.IF_ABSENT,
        },
        expires_at=now + timedelta(seconds=PRESIGNED_URL_TTL_SECONDS),
    )
