"""Files for packs that read files (DPP-65): the tenant puts them into its own prefix, straight into the bucket."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError
from django.db import transaction
from django.db.models import Count, Min, QuerySet, Sum
from django.db.models.functions import Coalesce, Now

from dpp_project import clock
from dpp_project.constants import PRESIGNED_URL_TTL_SECONDS, RETENTION_DAYS
from dpp_project.process_env import ENV
from runs.bucket import storage
from runs.models import UploadRoom
from tenants.models import Tenant

MAX_UPLOAD_BYTES: Final = 52_428_800
FILES_MAX: Final = 10_000
"""Of one tenant: what is held is a sum over so many rows at most."""
UNUSED_AFTER_SECONDS: Final = 3_600
"""A PUT that began before its address ended may take its time."""
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


class NoRoom(Exception):  # noqa: N818  named for the finding
    """The tenant's files hold all that they may. Nothing was prepared."""

    def __init__(self, *, bytes_held: int, files: int, frees_at: datetime | None) -> None:
        super().__init__("no room")
        self.bytes_held = bytes_held
        self.files = files
        self.frees_at = frees_at
        """When the oldest of them is deleted."""


def prepare_upload(*, tenant_id: str, filename: str, content_type: str, size_bytes: int) -> Upload:
    """An address for exactly this length and type, once, for ten minutes. The id in its key cannot be guessed.

    The room is counted first, under the lock of its tenant: a death before the answer leaves room that nothing comes
    into, and retention gives that back. Raises NoRoom.
    """
    now, bucket, upload_id = clock.now(), storage.shared_run_storage(), uuid.uuid4()
    key = storage.upload_key(tenant_id=tenant_id, upload_id=upload_id, filename=filename, at=now)
    _take_room(tenant_id=tenant_id, upload_id=upload_id, key=key, size_bytes=size_bytes)
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


def first_missing(*, tenant_id: str, keys: Mapping[str, str]) -> str | None:
    """The first field whose file is not among the tenant's own. A bucket that does not answer misses none.

    Another tenant's file is not asked for: it is as little there as one that never came.
    """
    for place, key in keys.items():
        if not storage.is_own_upload(tenant_id, key):
            return place
        try:
            if storage.shared_run_storage().head(key) is None:
                return place
        except (BotoCoreError, ClientError):
            return None  # the run asks again, and fails for nothing if the bucket is still away
    return None


@transaction.atomic
def _take_room(*, tenant_id: str, upload_id: uuid.UUID, key: str, size_bytes: int) -> None:
    Tenant.objects.select_for_update(no_key=True).only("pk").get(pk=tenant_id)  # one of a tenant's at a time
    held = UploadRoom.objects.filter(tenant_id=tenant_id).aggregate(
        bytes=Coalesce(Sum("size_bytes"), 0), files=Count("pk"), oldest=Min("created_at")
    )
    if held["bytes"] + size_bytes > room_bytes() or held["files"] >= FILES_MAX:
        frees_at = held["oldest"] and held["oldest"] + timedelta(days=RETENTION_DAYS)
        raise NoRoom(bytes_held=held["bytes"], files=held["files"], frees_at=frees_at)
    UploadRoom.objects.create(upload_id=upload_id, tenant_id=tenant_id, key=key, size_bytes=size_bytes)


def room_bytes() -> int:
    """Of one tenant."""
    return ENV.DPP_UPLOAD_MB_PER_TENANT * 1_000_000


def unseen_uploads() -> QuerySet[UploadRoom]:
    """Rooms whose address has ended and that retention has not looked into since. Those past retention are not here."""
    old, ended = Now() - timedelta(days=RETENTION_DAYS), Now() - timedelta(seconds=UNUSED_AFTER_SECONDS)
    rooms = UploadRoom.objects.filter(was_seen=False, created_at__gte=old, created_at__lt=ended)
    return rooms.order_by("created_at", "pk")


def uploads_past_retention() -> QuerySet[UploadRoom]:
    old = Now() - timedelta(days=RETENTION_DAYS)
    return UploadRoom.objects.filter(created_at__lt=old).order_by("created_at", "pk")


def look_into_upload(room: UploadRoom) -> bool:
    """Whether its file is there; an unused room is given back. A file is never longer than its room."""
    if storage.shared_run_storage().head(room.key) is None:
        UploadRoom.objects.filter(pk=room.pk).delete()
        return False
    UploadRoom.objects.filter(pk=room.pk).update(was_seen=True)
    return True


def give_back_upload_room(room: UploadRoom) -> None:
    """The file first: a death in between leaves a room that the next pass gives back."""
    storage.shared_run_storage().delete_prefix(room.key)
    UploadRoom.objects.filter(pk=room.pk).delete()
