"""The client for programs with an event loop; the same as `client.py`, awaited."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from dpp.documents import ApiKey, Budget, Document, Entry, Pack, Receipt, Run, RunSummary, Usage
from dpp.errors import api_error, seconds_of
from dpp.exchange import RETRIES, Answer, Ask, Lost, Pause, Plan
from dpp.files import write_whole
from dpp.operations import Operations, Page, Submit
from dpp.streams import Followed, Follower
from dpp.transport import Platform, answer_of_response, lost_in_transport

D = TypeVar("D", bound=Document)
T = TypeVar("T")
Packs = list[Pack]
"""Named here: inside the class `list` is the method."""


class AsyncClient:
    """One platform, one key. Use it in an `async with`.

    Without arguments it takes DPP_API_URL and DPP_API_KEY. Requests are repeated where that is safe.
    """

    def __init__(
        self,
        api_url: str | None = None,
        api_key: str | None = None,
        *,
        retries: int = RETRIES,
        http_client: httpx2.AsyncClient | None = None,
    ) -> None:
        self._platform = Platform(api_url, api_key)
        self._operations = Operations(retries)
        self._http = httpx2.AsyncClient() if http_client is None else http_client
        self._owns_http = http_client is None

    def __repr__(self) -> str:
        return f"AsyncClient({self._platform.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._owns_http:
            await self._http.aclose()

    async def submit(
        self,
        pack_type: str,
        inputs: Mapping[str, Any],
        *,
        max_cost_usd: Decimal | str | int,
        timebox_sec: int | None = None,
        min_reliability_score: float | None = None,
        inline: bool = False,
        metadata: Mapping[str, str] | None = None,
        artifacts: Iterable[str] = (),
        priority: int | None = None,
        concurrency_key: str | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Buy a run. Returns once it stands and its price is held.

        A key is made unless one is given, and goes with every repetition: however often the connection breaks, it is
        one purchase. `max_cost_usd` is a Decimal or a string, never a float. Among your own runs that wait, `priority`
        9 goes first and 0 last; of those with one `concurrency_key` one is at work at a time.
        """
        asked = Submit.of(
            pack_type,
            inputs,
            max_cost_usd=max_cost_usd,
            timebox_sec=timebox_sec,
            min_reliability_score=min_reliability_score,
            inline=inline,
            metadata=metadata,
            artifacts=artifacts,
            priority=priority,
            concurrency_key=concurrency_key,
            idempotency_key=idempotency_key,
        )
        return await self._carry(self._operations.submit(asked))

    async def submit_and_wait(
        self,
        pack_type: str,
        inputs: Mapping[str, Any],
        *,
        max_cost_usd: Decimal | str | int,
        timebox_sec: int | None = None,
        min_reliability_score: float | None = None,
        inline: bool = False,
        metadata: Mapping[str, str] | None = None,
        artifacts: Iterable[str] = (),
        priority: int | None = None,
        concurrency_key: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  it bounds the wait, and the run is told in the error
    ) -> Run:
        """Buy a run and wait for its end; a run that failed is returned as well (`run.check()` raises).

        After `timeout` seconds WaitTimeoutError, with the run's id; the run goes on.
        """
        asked = Submit.of(
            pack_type,
            inputs,
            max_cost_usd=max_cost_usd,
            timebox_sec=timebox_sec,
            min_reliability_score=min_reliability_score,
            inline=inline,
            metadata=metadata,
            artifacts=artifacts,
            priority=priority,
            concurrency_key=concurrency_key,
            idempotency_key=idempotency_key,
        )
        return await self._carry(self._operations.submit_and_wait(asked, timeout=timeout))

    async def wait(self, run_id: str, *, timeout: float | None = None) -> Run:  # noqa: ASYNC109
        """The run, as soon as it has ended, completed or failed. After `timeout` seconds WaitTimeoutError."""
        return await self._carry(self._operations.wait(run_id, timeout=timeout))

    async def stream(self, run_id: str, *, timeout: float | None = None) -> AsyncIterator[Followed]:  # noqa: ASYNC109
        """Each step of a run once, in order, with its pack's progress between them; ends with the run.

        A connection that breaks is opened again where it broke. Progress is news, no step: it may be lost or repeated.
        """
        ends = None if timeout is None else time.monotonic() + timeout
        follower = Follower(run_id, self._operations.retries, ends)
        while not follower.ended:
            request = self._platform.request(self._http, follower.ask())
            try:
                async with aclosing(self._connection(follower, request)) as events:
                    async for found in events:
                        yield found
            except httpx2.HTTPError as broken:
                follower.lost(type(broken).__name__)
            if not follower.ended:
                await self._pause(follower.pause)

    async def _connection(self, follower: Follower, request: httpx2.Request) -> AsyncGenerator[Followed, None]:
        response = await self._http.send(request, stream=True)
        try:
            match response.status_code:
                case httpx2.codes.NO_CONTENT:
                    follower.ended = True
                case httpx2.codes.OK:
                    async for some in response.aiter_bytes():
                        for found in follower.read(some):
                            yield found
                        if follower.is_late():
                            break
                    if not follower.ended:
                        follower.closed(seconds_of(response.headers.get("retry-after")))
                case status:
                    said = await response.aread()
                    follower.refused(api_error(status, dict(response.headers), said))
        finally:
            await response.aclose()

    async def get(self, run_id: str) -> Run:
        return await self._carry(self._operations.get(run_id))

    async def cancel(self, run_id: str) -> Run:
        """Queued, it costs nothing; at work, the minimum fee. ConflictError: it is finishing, or has ended."""
        return await self._carry(self._operations.cancel(run_id))

    async def delete_data(self, run_id: str) -> None:
        """Delete what an ended run was given and made. What it cost stays in the books."""
        await self._carry(self._operations.delete_data(run_id))

    def list(
        self,
        *,
        status: str | None = None,
        pack_type: str | None = None,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
        page_size: int = 50,
    ) -> AsyncIterator[RunSummary]:
        """The newest first; the next page is asked for when it is needed."""
        asked = {
            "status": status,
            "pack_type": pack_type,
            "created_from": created_from,
            "created_to": created_to,
            "metadata": metadata,
            "limit": page_size,
        }
        return self._pages(lambda cursor: self._operations.runs(cursor, asked))

    async def download(self, run_id: str, *, artifact: str | None = None, to: str | Path | None = None) -> bytes:
        """The result of a completed run, or a file beside it, checked against its SHA-256.

        With `to` it is written there too, whole or not at all.
        """
        content = await self._carry(self._operations.download(run_id, artifact))
        if to is not None:
            await asyncio.to_thread(write_whole, Path(to), content)
        return content

    async def upload(
        self, file: str | Path | bytes, *, filename: str | None = None, content_type: str | None = None
    ) -> str:
        """Put a file where packs read it; answers the key to name it by in `inputs`."""
        content = file if isinstance(file, bytes) else await asyncio.to_thread(Path(file).read_bytes)
        name = filename or ("file" if isinstance(file, bytes) else Path(file).name)
        return await self._carry(self._operations.upload(content, name, content_type))

    async def budget(self) -> Budget:
        return await self._carry(self._operations.budget())

    def entries(
        self,
        *,
        kind: str | None = None,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
        page_size: int = 50,
    ) -> AsyncIterator[Entry]:
        """The ledger's entries, the newest first."""
        asked = {"kind": kind, "created_from": created_from, "created_to": created_to, "limit": page_size}
        return self._pages(lambda cursor: self._operations.entries(cursor, asked))

    async def usage(
        self,
        *,
        start: date | None = None,
        end: date | None = None,
        by: str | None = None,
        group_by: str | None = None,
        metadata_key: str | None = None,
    ) -> Usage:
        """What runs came to from `start` until before `end`; the running month unless they are given."""
        asked = {"from": start, "to": end, "by": by, "group_by": group_by, "metadata_key": metadata_key}
        return await self._carry(self._operations.usage(asked))

    def keys(self, *, page_size: int = 50) -> AsyncIterator[ApiKey]:
        """What each key spent, and its caps; without `keys:write` the own key alone."""
        return self._pages(lambda cursor: self._operations.keys(cursor, {"limit": page_size}))

    async def packs(self) -> Packs:
        return await self._carry(self._operations.packs())

    async def _pages(self, plan_of: Callable[[str | None], Plan[Page[D]]]) -> AsyncIterator[D]:
        cursor: str | None = None
        while True:
            page = await self._carry(plan_of(cursor))
            for item in page.items:
                yield item
            if (cursor := page.next_cursor) is None:
                return

    async def _carry(self, plan: Plan[T]) -> T:
        """Do what the plan asks for, one thing after the other."""
        try:
            step = next(plan)
            while True:
                if isinstance(step, Pause):
                    await self._pause(step.seconds)
                    step = plan.send(None)
                else:
                    step = plan.send(await self._send(step))
        except StopIteration as ended:
            result: T = ended.value
            return result

    async def _send(self, ask: Ask) -> Answer | Lost:
        try:
            return answer_of_response(await self._http.send(self._platform.request(self._http, ask)))
        except httpx2.HTTPError as error:
            return lost_in_transport(error)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
