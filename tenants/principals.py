"""The principal of a request, and each process's cache of them. Pure but for the monotonic clock."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from tenants.scopes import Scope

REMEMBERED_SECONDS: Final = 4.0
VALID_KEYS_REMEMBERED: Final = 10_000
REFUSED_KEYS_REMEMBERED: Final = 2_000


@dataclass(frozen=True, slots=True)
class Principal:
    """The tenant behind a request and what its key allows: `request.user` under DRF."""

    tenant_id: str
    key_id: UUID
    prefix: str
    scopes: frozenset[Scope]
    expires_at: datetime | None
    poll_rate_per_minute: int
    submit_rate_per_minute: int
    submits_enabled: bool = True
    lineage_id: UUID | None = None
    """Of the key and its rotations; what they spend is counted together."""
    tenant_caps_revision: int = 0
    lineage_caps_revision: int = 0
    """The revision of the caps as it was looked up; 0 where there never was a cap."""
    share_weight: int = 1
    """The tenant's, beside others whose runs wait."""

    @property
    def is_authenticated(self) -> bool:
        return True

    def has_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


class RefusedKey(StrEnum):
    """Why a request has no principal, for metrics and logs; callers get the same answer for every cause."""

    MISSING = "missing"
    MALFORMED = "malformed"
    UNKNOWN = "unknown"
    WRONG_SECRET = "wrong_secret"  # noqa: S105  a kind, not a secret
    REVOKED = "revoked"
    EXPIRED = "expired"
    SUSPENDED = "suspended"


Finding = Principal | RefusedKey


class PrincipalCache:
    """Cache of lookups by SHA-256 of the presented key, each for REMEMBERED_SECONDS: a cached key costs no query.

    A revocation or suspension is therefore effective everywhere REMEMBERED_SECONDS after its commit: an entry's time
    starts before its row is read. That is below the promised 5 s by a second, for requests already on their way.

    Valid and refused keys have a bounded LRU cache each: a client that tries random keys evicts its own refusals and no
    valid key. Each try costs one read of a unique index; the proxy in front limits tries per address.
    """

    def __init__(
        self,
        *,
        valid_limit: int = VALID_KEYS_REMEMBERED,
        refused_limit: int = REFUSED_KEYS_REMEMBERED,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = {True: valid_limit, False: refused_limit}
        self._shelves: dict[bool, OrderedDict[str, tuple[float, Finding]]] = {True: OrderedDict(), False: OrderedDict()}
        self._monotonic = monotonic
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return sum(len(shelf) for shelf in self._shelves.values())

    def started(self) -> float:
        """Call it before the row is read, and pass the result to `keep`."""
        return self._monotonic()

    def find(self, key_hash: str) -> Finding | None:
        stale_before = self._monotonic() - REMEMBERED_SECONDS
        with self._lock:
            for shelf in self._shelves.values():
                entry = shelf.get(key_hash)
                if entry is None:
                    continue
                if entry[0] > stale_before:
                    shelf.move_to_end(key_hash)
                    return entry[1]
                del shelf[key_hash]
        return None

    def keep(self, key_hash: str, finding: Finding, *, started: float) -> None:
        is_valid = isinstance(finding, Principal)
        shelf = self._shelves[is_valid]
        with self._lock:
            self._shelves[not is_valid].pop(key_hash, None)
            shelf[key_hash] = (started, finding)
            shelf.move_to_end(key_hash)
            while len(shelf) > self._limits[is_valid]:
                shelf.popitem(last=False)

    def forget(self) -> None:
        with self._lock:
            for shelf in self._shelves.values():
                shelf.clear()
