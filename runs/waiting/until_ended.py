"""Wait until a run has ended, or for so long.

For code that answers on a loop, such as the API's views (runs/api/waiting.py) or a tool of an agent. No thread and no
connection is held meanwhile:

    run = <in a thread: read the run and check whose it is>
    if run.finalize_stage != Stage.COMMITTED:
        how = await until_ended(
            run_id=run.run_id, tenant_id=run.tenant_id, key_id=key_id, seen_version=run.version, seconds=20
        )
        if how is WaitEnd.ENDED:
            run = <in a thread: read it again>

The run is read first, and its version says what the caller knows: a run that ended between the reading and the waiting
is noticed all the same. A caller answers what it has read where the wait ends in another way; on NO_PLACE it says that
the next call should come in two seconds (places.RETRY_AFTER_SECONDS).
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dpp_project.waiting.until import WaitEnd, wait_until_it_is
from dpp_project.waiting.watcher import Waiter
from runs.waiting import steps
from tenants import key_watch

_WHAT: Final = "run"


async def until_ended(
    *, run_id: uuid.UUID, tenant_id: str, key_id: uuid.UUID, seen_version: int, seconds: float
) -> WaitEnd:
    """Of a run of this tenant that had not ended at `seen_version`. Asks the database nothing by itself, and raises
    nothing where that does not answer: then the wait goes on to its end.
    """

    @contextmanager
    def watching(waiter: Waiter) -> Iterator[None]:
        with (
            steps.run_steps_watcher().watching(waiter, str(run_id), seen=seen_version),
            key_watch.watching_key(waiter, key_id),
        ):
            yield

    return await wait_until_it_is(
        _WHAT,
        tenant_id=tenant_id,
        watching=watching,
        is_it=lambda news: news.what.ended,
        seconds=seconds,
    )
