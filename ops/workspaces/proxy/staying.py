"""How long a caller that was let in may stay: no longer than its key, its tenant, and the link that it came by.

Admission asks once, and an exchange may last a quarter of an hour. So while one is under way its key is watched with
those of all who wait (tenants/key_watch.py): an answer that has begun then breaks off, and is taken for no whole one.
"""

import math
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dpp_project import clock
from dpp_project.waiting.until import key_has_ended
from dpp_project.waiting.watcher import Waiter
from ops.workspaces.proxy.answers import NotPassedOn, ProxyAnswer
from ops.workspaces.proxy.racing import finish_unless
from tenants import authentication, key_watch


@dataclass(frozen=True, slots=True)
class Admitted:
    """Whose the workspace is, and whose key let the caller in."""

    tenant_id: str
    key_id: UUID
    until: float = math.inf
    """In seconds since 1970: of a link. A key's own end is watched with the key."""


async def while_admitted(admitted: Admitted, exchange: Coroutine[Any, Any, None]) -> None:
    """Raises NotPassedOn, with the exchange given up, once its caller would not be let in any more."""
    waiter = Waiter()
    with key_watch.watching_key(waiter, admitted.key_id):
        await finish_unless(exchange, broken_by=_end_of_stay(waiter, admitted))


async def _end_of_stay(waiter: Waiter, admitted: Admitted) -> None:
    while (left := admitted.until - clock.now().timestamp()) > 0:
        came = await waiter.news(seconds=left)
        if key_has_ended(came) or waiter.stopping:  # nobody watches any more in a process that stops
            break
    raise unproven_refusal("The key or the link that let this in has ended.")


def unproven_refusal(detail: str) -> NotPassedOn:
    challenge = (b"www-authenticate", authentication.CHALLENGE.encode("ascii"))
    return NotPassedOn(ProxyAnswer(401, detail, headers=[challenge]))
