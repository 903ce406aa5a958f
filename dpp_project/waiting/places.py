"""How many may wait at once in one process: a bound for each tenant, and one for all."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dpp_project.processes.per_process import PerProcess

PER_TENANT: Final = 50
IN_PROCESS: Final = 2_000
BODY_BYTES_MAX: Final = 65_536
"""Of a request that waits. Its body is held meanwhile: by a few tenants' megabytes all others' would be kept out
(api_server/request_bodies.py).
"""
RETRY_AFTER_SECONDS: Final = 2
"""For one who was answered at once because there was no place."""


class Places:
    def __init__(self, *, per_tenant: int = PER_TENANT, in_process: int = IN_PROCESS) -> None:
        self._per_tenant = per_tenant
        self._in_process = in_process
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()
        self._all = 0

    @property
    def taken(self) -> int:
        return self._all

    @contextmanager
    def place(self, tenant_id: str) -> Iterator[bool]:
        """Whether there was one; it is given back when the block ends, however it ends."""
        has = self._take(tenant_id)
        try:
            yield has
        finally:
            if has:
                self._give_back(tenant_id)

    def has_room(self, tenant_id: str) -> bool:
        """At this moment; a place is certain once it is taken."""
        return self._taken[tenant_id] < self._per_tenant and self._all < self._in_process

    def _take(self, tenant_id: str) -> bool:
        with self._lock:
            if not self.has_room(tenant_id):
                return False
            self._taken[tenant_id] += 1
            self._all += 1
            return True

    def _give_back(self, tenant_id: str) -> None:
        with self._lock:
            self._all -= 1
            self._taken[tenant_id] -= 1
            if not self._taken[tenant_id]:
                del self._taken[tenant_id]


places = PerProcess(Places)
