"""The gate before all money, and its epoch.

`budget:epoch` holds `<run_id of the server>.<name>` while money is open, and `closed.<run_id>.<name>` while it is not.
Every script brings the epoch its caller knows and refuses when the stored one is another. A missing key is closed.
A tenant has a gate of its own, `budget:{tenant}:gate`, for the moment only its money is rebuilt or counted.
"""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

import redis

from budget.redis import keys
from dpp_project.stores.lua import LuaScript

_LUA: Final = Path(__file__).parent.joinpath("lua")
CHECK: Final = LuaScript(_LUA.joinpath("gate_check.lua"))
CLOSE: Final = LuaScript(_LUA.joinpath("gate_close.lua"))
OPEN: Final = LuaScript(_LUA.joinpath("gate_open.lua"))
OPEN_TENANT: Final = LuaScript(_LUA.joinpath("tenant_open.lua"))


LEDGER_BEHIND: Final = "ledger-behind-"


class GateClosed(Exception):  # noqa: N818  a state, not an error of ours
    """No money moves now: it is being rebuilt, or waits for it."""

    @property
    def ledger_is_behind(self) -> bool:
        """Postgres lacks what Redis heard of: a person must act, nothing opens by itself."""
        return f".{LEDGER_BEHIND}" in str(self)


class Gate:
    """Remembers the epoch, so that an operation on money costs one round trip."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._known: str | None = None
        self._unasked: Callable[[], object] | None = None

    def ask_first(self, question: Callable[[], object]) -> None:
        """What could not be asked in its time is asked before money moves again: no caller gets an epoch before.

        `question` closes the gate where it must, and raises where it cannot be answered now; then it is asked again.
        Each call brings another object, so that an answer to the last question is none to the next.
        """
        self._unasked = question

    def epoch(self) -> str:
        """The epoch as last seen. May be out of date: the scripts find out."""
        known = self._known
        return self.renewed() if known is None or self._unasked is not None else known

    def renewed(self) -> str:
        """The epoch as it stands, asked from the server. Raises GateClosed."""
        question = self._unasked
        if question is not None:
            question()
            if self._unasked is question:
                self._unasked = None
        return self.looked_up()

    def looked_up(self) -> str:
        """As `renewed`, for callers that put the open question themselves: a rebuild and the watch."""
        state, value = CHECK(self._client, keys=[keys.EPOCH])
        if state != "OPEN":
            self._known = None
            raise GateClosed(value)
        self._known = value
        return str(value)

    def close(self, client: redis.Redis, *, why: str = "") -> str:
        """Close the money of all tenants; the token is what opens it, and says why it was closed."""
        return str(CLOSE(client, keys=[keys.EPOCH], args=[f"{why}{uuid.uuid4().hex}"])[1])

    def open(self, client: redis.Redis, token: str) -> str | None:
        """Open under a new epoch, unless something came between; the epoch, or None."""
        state, *value = OPEN(client, keys=[keys.EPOCH], args=[token, uuid.uuid4().hex])
        if state != "OPEN":
            return None
        self._known = str(value[0])
        return self._known

    def close_tenant(self, client: redis.Redis, tenant_id: str) -> str:
        """Close one tenant until it is opened with the token. A closing by someone else is taken over."""
        token = f"{keys.CLOSED_PREFIX}{uuid.uuid4().hex}"
        client.set(keys.gate_key(tenant_id), token)
        return token

    def close_tenant_briefly(self, client: redis.Redis, tenant_id: str) -> str | None:
        """Close one tenant for VERIFY_GATE_MS at most, even if we die; None when it is closed already."""
        token = f"{keys.CLOSED_PREFIX}{uuid.uuid4().hex}"
        taken = client.set(keys.gate_key(tenant_id), token, px=keys.VERIFY_GATE_MS, nx=True)
        return token if taken else None

    def open_tenant(self, client: redis.Redis, tenant_id: str, token: str) -> bool:
        return bool(OPEN_TENANT(client, keys=[keys.gate_key(tenant_id)], args=[token])[0] == "OPEN")
