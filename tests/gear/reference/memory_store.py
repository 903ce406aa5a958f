"""The archive bucket in memory, as operations and monitor see it (ops/workspaces/archive_port.py)."""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from ops.workspaces.archive_store.archives import (
    ArchiveHead,
    ArchiveIdentity,
    ListedArchive,
    SentArchive,
    VerifiedArchive,
)
from ops.workspaces.drivers.base import DriverCorrupt, DriverUnavailable


@dataclass
class Stored:
    content: bytes
    identity: ArchiveIdentity
    written_at: datetime


class MemoryStore:
    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.is_away = False
        self.looks = 0
        self._uploads = itertools.count(1)

    def upload(
        self,
        key: str,
        identity: ArchiveIdentity,
        export: AbstractContextManager[BinaryIO],
        *,
        opened: Callable[[str], None],
        progress: Callable[[int], None],
    ) -> SentArchive | None:
        self._is_here()
        opened(f"upload-{next(self._uploads)}")
        with export as tar:
            content = tar.read()
        progress(len(content))
        if (found := self.objects.get(key)) is not None:
            if found.identity != identity:
                raise DriverCorrupt(f"another object lies at {key}", reason="KeyTaken")
            return None
        self.objects[key] = Stored(content, identity, self._now())
        return SentArchive(len(content), len(content), hashlib.sha256(content).hexdigest())

    def verify(
        self, key: str, identity: ArchiveIdentity, sent: SentArchive | None, *, progress: Callable[[int], None]
    ) -> VerifiedArchive:
        self._is_here()
        found = self._known(key)
        if found.identity != identity:
            raise DriverCorrupt(f"another object lies at {key}", reason="KeyTaken")
        sha256 = hashlib.sha256(found.content).hexdigest()
        if sent is not None and sent.sha256 != sha256:
            raise DriverCorrupt(f"{key} is not what was sent", reason="ArchiveCorrupted")
        progress(len(found.content))
        return VerifiedArchive(len(found.content), len(found.content), 1, sha256)

    def read(self, key: str, verified: VerifiedArchive) -> Iterator[bytes]:
        self._is_here()
        content = self._known(key).content
        yield content[: len(content) // 2]
        self._is_here()
        yield content[len(content) // 2 :]
        if hashlib.sha256(content).hexdigest() != verified.sha256:
            raise DriverCorrupt(f"{key} is not what was verified", reason="ArchiveCorrupted")

    def look(self, key: str) -> ArchiveHead | None:
        self._is_here()
        self.looks += 1
        if (found := self.objects.get(key)) is None:
            return None
        return ArchiveHead(len(found.content), found.identity, None, found.written_at)

    def list_archives(self, prefix: str) -> list[ListedArchive]:
        self._is_here()
        return [
            ListedArchive(key, len(found.content), found.written_at)
            for key, found in self.objects.items()
            if key.startswith(prefix)
        ]

    def _known(self, key: str) -> Stored:
        if (found := self.objects.get(key)) is None:
            raise DriverCorrupt(f"no object lies at {key}", reason="ArchiveNotFound")
        return found

    def _is_here(self) -> None:
        if self.is_away:
            raise DriverUnavailable("the bucket is away")

    def _now(self) -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=len(self.objects))
