"""Answers that are made while they are read: each holds a thread, and a slow reader holds it long."""

import threading
from collections.abc import Iterable, Iterator
from typing import Final

from dpp_project.http.problems import Problem
from dpp_project.process_env import ENV
from dpp_project.reasons import ReasonCode

MOST_AT_ONCE: Final = max(1, ENV.DPP_API_THREADS // 2)
"""Of all tenants in one process."""
RETRY_AFTER_SECONDS: Final = 10

_lock = threading.Lock()
_tenants: set[str] = set()


class Stream:
    """One tenant's. The response closes it, however it ends; a tenant has one at a time in a process."""

    def __init__(self, tenant_id: str, pieces: Iterable[str]) -> None:
        with _lock:
            if tenant_id in _tenants or len(_tenants) >= MOST_AT_ONCE:
                raise _too_many(tenant_id in _tenants)
            _tenants.add(tenant_id)
        self._tenant_id: str | None = tenant_id
        self._pieces = pieces

    def __iter__(self) -> Iterator[str]:
        return iter(self._pieces)

    def close(self) -> None:
        with _lock:
            if self._tenant_id is not None:
                _tenants.discard(self._tenant_id)
                self._tenant_id = None


def _too_many(is_of_tenant: bool) -> Problem:  # noqa: FBT001  whose it is
    whose = "Another statement of this tenant is" if is_of_tenant else "Other statements are"
    return Problem(
        ReasonCode.RATE_LIMITED,
        f"{whose} being read; read one at a time.",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )
