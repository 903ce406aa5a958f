"""Threads of one host, and who has them: what one tenant, or a bucket that does not answer, leaves to the others."""

import threading
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Self

from ops.workspaces.states import Operation, OperationStep

THREADS: Final = 8
"""Of this host: a stop may wait for a command that does not end, a start for an init that does not come up. One tenant
begins no more at once than are left for the others.
"""
BUCKET_AT_ONCE: Final = 6
"""Of this host: each waits for a bucket that is silent until its timeout. Starts and stops need none, and go on."""
HOMES_AT_ONCE: Final = 4
"""Of this host: they read and write whole homes. One tenant has no more than are left for the others, so half of them
where it is alone.
"""
_HOME_STEPS: Final = {
    Operation.ARCHIVING: frozenset({OperationStep.FENCE, OperationStep.UPLOAD, OperationStep.VERIFY}),
    Operation.RESTORING: frozenset({OperationStep.SURVEY, OperationStep.FILL}),
}


@dataclass(frozen=True, slots=True)
class Occupant:
    """Who has a thread, and what it does there. Who reads a home asks the bucket too."""

    tenant_id: str
    asks_bucket: bool
    reads_home: bool


def occupant_of(tenant_id: str, operation: Operation, step: OperationStep) -> Occupant:
    """From this step on; what goes before the last of a home's steps is done by the same thread."""
    reads_home = step in _HOME_STEPS.get(operation, ())
    return Occupant(tenant_id, reads_home or step is OperationStep.SURVEY, reads_home)


class HostThreads:
    def __init__(self, taken: dict[Hashable, Occupant] | None = None) -> None:
        self._taken = taken or {}
        self._lock = threading.Lock()

    def copy(self) -> Self:
        """To choose several by, before any of them is at work."""
        with self._lock:
            return type(self)(dict(self._taken))

    def take(self, key: Hashable, occupant: Occupant) -> bool:
        """False where it has one already."""
        with self._lock:
            return self._taken.setdefault(key, occupant) is occupant

    def leave(self, key: Hashable) -> None:
        """Also where nobody has it any more."""
        with self._lock:
            self._taken.pop(key, None)

    @property
    def room(self) -> int:
        with self._lock:
            return THREADS - len(self._taken)

    def has_bucket_place(self, asked: Occupant) -> bool:
        """Always where no bucket is asked."""
        if not asked.asks_bucket:
            return True
        with self._lock:
            asking = [one for one in self._taken.values() if one.asks_bucket]
        homes = [one for one in asking if one.reads_home]
        return len(asking) < BUCKET_AT_ONCE and (
            not asked.reads_home or _leaves_as_many(asked.tenant_id, homes, of=HOMES_AT_ONCE)
        )

    def has_thread(self, tenant_id: str) -> bool:
        with self._lock:
            return _leaves_as_many(tenant_id, list(self._taken.values()), of=THREADS)


def _leaves_as_many(tenant_id: str, taken: list[Occupant], *, of: int) -> bool:
    """Whether a tenant may have one place more: it has no more of them than are free."""
    return sum(one.tenant_id == tenant_id for one in taken) < of - len(taken)
