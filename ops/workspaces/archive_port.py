"""What the loops ask of the archive bucket."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from ops.workspaces.archive_store.archives import (
    ArchiveHead,
    ArchiveIdentity,
    ListedArchive,
    SentArchive,
    VerifiedArchive,
)


class ArchivePort(Protocol):
    """As archive_store/store.py has it."""

    def upload(
        self,
        key: str,
        identity: ArchiveIdentity,
        export: AbstractContextManager[BinaryIO],
        *,
        opened: Callable[[str], None],
        progress: Callable[[int], None],
    ) -> SentArchive | None: ...

    def verify(
        self, key: str, identity: ArchiveIdentity, sent: SentArchive | None, *, progress: Callable[[int], None]
    ) -> VerifiedArchive: ...

    def read(self, key: str, verified: VerifiedArchive) -> Iterator[bytes]: ...

    def look(self, key: str) -> ArchiveHead | None: ...

    def list_archives(self, prefix: str) -> list[ListedArchive]: ...
