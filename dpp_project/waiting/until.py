"""Wait for one thing to happen, or for so long, in one of the places that there are."""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import StrEnum

from dpp_project.waiting import metrics
from dpp_project.waiting.places import places
from dpp_project.waiting.watcher import News, Waiter


class WaitEnd(StrEnum):
    ENDED = "ended"
    """What was waited for has happened."""
    TIME_OVER = "time over"
    NO_PLACE = "no place"
    """The tenant, or the process, has as many who wait as it may: not waited at all."""
    STOPPING = "stopping"
    """The process is about to end."""
    KEY_ENDED = "key ended"
    """The key that asked no longer stands: what happened since is not for it. A watcher of keys tells it as news."""


def key_has_ended(came: Iterable[News]) -> bool:
    return any(news.what is WaitEnd.KEY_ENDED for news in came)


async def wait_until_it_is(
    what: str,
    *,
    tenant_id: str,
    watching: Callable[[Waiter], AbstractContextManager[None]],
    is_it: Callable[[News], bool],
    seconds: float,
) -> WaitEnd:
    """`what` is counted. Asks the database nothing by itself, and raises nothing where that does not answer: then the
    wait goes on to its end.
    """
    metrics.BEGUN.labels(what).inc()
    how = WaitEnd.NO_PLACE
    try:
        with places().place(tenant_id) as has_place:
            if has_place:
                how = await _waited(watching, is_it, time.monotonic() + seconds)
    except asyncio.CancelledError:
        metrics.ENDED.labels(what, "left").inc()
        raise
    metrics.ENDED.labels(what, how.value).inc()
    return how


async def _waited(
    watching: Callable[[Waiter], AbstractContextManager[None]], is_it: Callable[[News], bool], until_time: float
) -> WaitEnd:
    waiter = Waiter()
    with watching(waiter):
        while (left := until_time - time.monotonic()) > 0:
            came = await waiter.news(seconds=left)
            if key_has_ended(came):
                return WaitEnd.KEY_ENDED
            if any(is_it(news) for news in came):
                return WaitEnd.ENDED
            if waiter.stopping:
                return WaitEnd.STOPPING
    return WaitEnd.TIME_OVER
