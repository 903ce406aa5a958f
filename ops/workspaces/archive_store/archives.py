"""What is said of an archive: whose it is, what was sent, what was read back, what lies in the bucket."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

_TOKEN: Final = "token"  # noqa: S105  names a field
_EPOCH: Final = "epoch"
_UPLOAD: Final = "upload"


@dataclass(frozen=True, slots=True)
class ArchiveIdentity:
    """In the object's metadata: an object at our key that says otherwise is not ours, whatever its key."""

    token: str
    epoch: int
    """Which of the workspace's volumes it was made from."""

    def metadata(self, upload: str) -> dict[str, str]:
        """`upload` tells two uploads of one operation apart, which may differ in bytes."""
        return {_TOKEN: self.token, _EPOCH: str(self.epoch), _UPLOAD: upload}


@dataclass(frozen=True, slots=True)
class SentArchive:
    """What was sent, and lies at its key. It counts once it was read back."""

    object_bytes: int
    tar_bytes: int
    sha256: str
    """Of the object, as hex."""


@dataclass(frozen=True, slots=True)
class VerifiedArchive:
    """What was read back, whole."""

    object_bytes: int
    tar_bytes: int
    members: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ArchiveHead:
    """An object as the bucket describes it. `identity` is None where its metadata are not ours."""

    object_bytes: int
    identity: ArchiveIdentity | None
    upload: str | None
    written_at: datetime


@dataclass(frozen=True, slots=True)
class ListedArchive:
    """An object as a list shows it: without its metadata."""

    key: str
    object_bytes: int
    written_at: datetime


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """Begun, and neither completed nor aborted. Its parts are paid for."""

    key: str
    upload_id: str
    begun_at: datetime


def identity_in(metadata: Mapping[str, str]) -> ArchiveIdentity | None:
    token, epoch = metadata.get(_TOKEN), metadata.get(_EPOCH, "")
    if token is None or not epoch.isdecimal():
        return None
    return ArchiveIdentity(token, int(epoch))


def upload_in(metadata: Mapping[str, str]) -> str | None:
    return metadata.get(_UPLOAD)
