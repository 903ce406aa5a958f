"""One attempt at work on one operation: its claim, what it may ask, and what every operation does with containers."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import connections

from dpp_project.stores.postgres import DATABASE_AWAY
from ops.workspaces import naming
from ops.workspaces.archive_port import ArchivePort
from ops.workspaces.archive_store.archives import SentArchive
from ops.workspaces.conditions import Conditions
from ops.workspaces.drivers.base import Driver, DriverRefused, Label, SeenContainer
from ops.workspaces.models import Workspace
from ops.workspaces.rows import transitions, volumes
from ops.workspaces.rows.transitions import OperationClaim
from ops.workspaces.states import OperationStep

PROGRESS_SECONDS: Final = 5.0
"""How often progress is written: the lease is many times as long."""
HOLD_SECONDS: Final = 15.0
SILENT_SECONDS_MAX: Final = 600.0
"""So long an attempt whose verb says nothing keeps its lease: a disk takes what is to be on it, a bucket puts an upload
together. After that it is taken for hung.
"""


class DatabaseBehind(DriverRefused):
    """The bucket or the driver holds what our rows do not know: an older database was restored, or a person copied."""

    reason = "DatabaseBehind"
    for_good = True


@dataclass(slots=True)
class OperationWork:
    claim: OperationClaim
    driver: Driver
    store: ArchivePort
    sent: SentArchive | None = None
    """What this attempt has uploaded, for its verification."""
    _told_at: float = field(default_factory=time.monotonic)
    _moved_at: float = field(default_factory=time.monotonic)

    @property
    def container_name(self) -> str:
        return naming.container_name(self.claim.workspace_id)

    @property
    def label(self) -> Label:
        return Label(str(self.claim.workspace_id), str(self.claim.op_id), self.claim.attempt)

    def row(self) -> Workspace:
        return Workspace.objects.get(pk=self.claim.workspace_id)

    def seen(self, row: Workspace) -> Conditions:
        return Conditions.stored(row.conditions, kind=self.driver.kind)

    def hold(self) -> None:
        transitions.hold_operation(self.claim)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """The lease goes on under a verb whose end may take longer than it, once the last byte was given: without, each
        attempt would be overtaken by the next, and none come to its end.
        """
        self._moved_at, ended = time.monotonic(), threading.Event()
        keeper = threading.Thread(target=self._hold_on, args=(ended,), name="workspaces-lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()

    def _hold_on(self, ended: threading.Event) -> None:
        try:
            while not ended.wait(HOLD_SECONDS) and time.monotonic() - self._moved_at < SILENT_SECONDS_MAX:
                self.hold()
        except (transitions.ClaimLost, *DATABASE_AWAY):
            pass  # the attempt itself finds out at its next step
        finally:
            connections.close_all()

    def progress(self, done_bytes: int) -> None:
        self._moved_at = time.monotonic()
        if time.monotonic() - self._told_at >= PROGRESS_SECONDS:
            self._told_at = time.monotonic()
            transitions.hold_operation(self.claim, progress_bytes=done_bytes)

    def advance(self, step: OperationStep, **changes: Any) -> None:
        self.claim = transitions.advance_operation(self.claim, step, **changes)

    def is_ours(self, container: SeenContainer) -> bool:
        return container.label is not None and container.label.workspace_id == str(self.claim.workspace_id)

    def is_own_placeholder(self, container: SeenContainer | None) -> bool:
        return (
            container is not None
            and container.placeholder
            and container.label is not None
            and container.label.op_id == str(self.claim.op_id)
        )

    def clear(self, *, spared: Callable[[SeenContainer], bool] = lambda _found: False) -> None:
        """No container of ours has the name. Raises DriverRefused where it is not ours to remove."""
        found = self.driver.look_container(self.container_name)
        if found is None or spared(found):
            return
        if not self.is_ours(found):
            raise DriverRefused(f"a container without our label is called {found.name}", reason="NameTaken")
        self.remove(found)

    def remove(self, found: SeenContainer) -> None:
        if found.volume is not None and not volumes.volume_states([found.volume]):
            raise DatabaseBehind(f"{found.name} works on {found.volume}, which is unknown here")
        self.hold()  # after the look: an attempt that lost has not seen what the next one made
        self.driver.remove_container(found.container_id)
