"""What a list leaves open is asked by name: beside each other, each within its deadline, none twice at a time."""

import contextlib
import enum
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final, TypeVar
from uuid import UUID

import structlog

from ops.workspaces import naming
from ops.workspaces.archive_port import ArchivePort
from ops.workspaces.archive_store.archives import ArchiveHead
from ops.workspaces.drivers.base import Driver, DriverError, SeenContainer, SeenVolume

log = structlog.get_logger("dpp.workspaces")

LOOKERS: Final = 8
LOOKS_SECONDS: Final = 20.0
"""For all looks of a pass together; those that have not ended by then are left to themselves."""

Seen = TypeVar("Seen")


class Unseen(enum.Enum):
    UNSEEN = "unseen"


UNSEEN: Final = Unseen.UNSEEN
"""A look that failed. None is a definite no."""


@dataclass(slots=True)
class Looks:
    """What is to be asked, and what came of it."""

    volume: str | None = None
    container: bool = False
    archive_key: str | None = None
    seen_volume: SeenVolume | Unseen | None = None
    seen_container: SeenContainer | Unseen | None = None
    seen_archive: ArchiveHead | Unseen | None = None

    @property
    def any(self) -> bool:
        return self.volume is not None or self.container or self.archive_key is not None


class Lookers:
    """Its threads are daemons: one that hangs keeps neither a pass nor the process."""

    def __init__(self, driver: Driver, store: ArchivePort, *, seconds: float = LOOKS_SECONDS) -> None:
        self._driver = driver
        self._seconds = seconds
        self._store = store
        self._hanging: set[UUID] = set()

    def ask(self, wanted: Mapping[UUID, Looks]) -> Iterator[UUID]:
        """Those whose looks have ended, however, as they end."""
        asked = [key for key in wanted if key not in self._hanging]
        todo: SimpleQueue[UUID] = SimpleQueue()
        ended: SimpleQueue[UUID] = SimpleQueue()
        for key in asked:
            todo.put(key)
        for _ in range(min(LOOKERS, len(asked))):
            threading.Thread(
                target=self._work_off, args=(todo, ended, wanted), name="workspaces-look", daemon=True
            ).start()
        until, left = time.monotonic() + self._seconds, set(asked)
        while left:
            try:
                key = ended.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                break
            left.discard(key)
            yield key
        while not todo.empty():
            with contextlib.suppress(Empty):
                left.discard(todo.get_nowait())  # not asked at all: the next pass asks
        self._hanging |= left
        if left:
            log.warning("looks hang", workspaces=[str(key) for key in left])

    def _work_off(self, todo: "SimpleQueue[UUID]", ended: "SimpleQueue[UUID]", wanted: Mapping[UUID, Looks]) -> None:
        while True:
            try:
                key = todo.get_nowait()
            except Empty:
                return
            self._ask(key, wanted[key])
            ended.put(key)
            self._hanging.discard(key)

    def _ask(self, workspace_id: UUID, looks: Looks) -> None:
        volume, key, name = looks.volume, looks.archive_key, naming.container_name(workspace_id)
        if volume is not None:
            looks.seen_volume = _seen_or_unseen(lambda: self._driver.look_volume(volume))
        if looks.container:
            looks.seen_container = _seen_or_unseen(lambda: self._driver.look_container(name))
        if key is not None:
            looks.seen_archive = _seen_or_unseen(lambda: self._store.look(key))


def _seen_or_unseen(look: Callable[[], Seen]) -> Seen | Unseen:
    try:
        return look()
    except DriverError as error:
        log.info("a look failed", error=str(error))
    except Exception:
        log.exception("a look failed unexpectedly")
    return UNSEEN
