"""Who has shown a valid key lately, and how many requests an address has left for those who have not."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dpp_project.http.client_address import site_of

REMEMBERED_KEYS: Final = 10_000
REMEMBERED_SITES: Final = 10_000


@dataclass(frozen=True)
class StrangerLimits:
    """Of one process, for each address: what has no key that was valid before."""

    burst: int = 300
    per_second: float = 10.0


class KnownKeys:
    """By Authorization header, as a hash of this process alone: whose key it is. Being known proves nothing here."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[int, str] = OrderedDict()

    def tenant_of(self, header: str) -> str | None:
        return self._tenants.get(hash(header))

    def learn(self, header: str, tenant_id: str) -> None:
        self._tenants[hash(header)] = tenant_id
        if len(self._tenants) > REMEMBERED_KEYS:
            self._tenants.popitem(last=False)

    def forget(self, header: str) -> None:
        self._tenants.pop(hash(header), None)


class Strangers:
    """A token bucket for each address; one that is full is not kept."""

    def __init__(self, limits: StrangerLimits, *, now: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._now = now
        self._sites: OrderedDict[str, tuple[float, float]] = OrderedDict()  # level and its time, the oldest first

    def __len__(self) -> int:
        return len(self._sites)

    def take(self, address: str) -> int:
        """0 where a token was there; else the seconds, rounded up, until one is."""
        site, now = site_of(address), self._now()
        level = self._level(site, now)
        if level < 1:
            return int((1 - level) / self._limits.per_second) + 1
        self._sites[site] = (level - 1, now)
        self._sites.move_to_end(site)
        if len(self._sites) > REMEMBERED_SITES:
            self._sites.popitem(last=False)
        return 0

    def give_back(self, address: str) -> None:
        """The request was no stranger's after all."""
        site, now = site_of(address), self._now()
        level = self._level(site, now) + 1
        if level >= self._limits.burst:
            self._sites.pop(site, None)
        else:
            self._sites[site] = (level, now)

    def _level(self, site: str, now: float) -> float:
        level, at = self._sites.get(site, (float(self._limits.burst), now))
        return min(float(self._limits.burst), level + (now - at) * self._limits.per_second)
