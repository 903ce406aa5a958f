"""Two things at once, of which the end of one is the end of both."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def finish_unless(work: Coroutine[Any, Any, None], *, broken_by: Coroutine[Any, Any, None]) -> None:
    """`work` to its end, or what `broken_by` raises before that; where this ends first and raises nothing, nothing
    comes of it.
    """
    beside, working = asyncio.ensure_future(broken_by), asyncio.ensure_future(work)
    try:
        await asyncio.wait({beside, working}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            beside.result()
        await working
    finally:
        for one in (beside, working):
            one.cancel()
        await asyncio.gather(beside, working, return_exceptions=True)
