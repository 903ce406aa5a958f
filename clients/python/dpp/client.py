"""The client for programs that wait for each answer."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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


class Client:
    """One platform, one key. Use it in a `with`, from one thread or several.

    Without arguments it takes DPP_API_URL and DPP_API_KEY. Requests are repeated where that is safe.
    """

    def __init__(
        self,
        api_url: str | None = None,
        api_key: str | None = None,
        *,
        retries: int = RETRIES,
        http_client: httpx2.Client | None = None,
    ) -> None:
        self._platform = Platform(api_url, api_key)
        self._operations = Operations(retries)
        self._http = httpx2.Client() if http_client is None else http_client
        self._owns_http = http_client is None

    def __repr__(self) -> str:
        return f"Client({self._platform.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._owns_http:
            self._http.close()

    def submit(
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
        return self._carry(self._operations.submit(asked))

    def submit_and_wait(
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
        timeout: float | None = None,
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
        return self._carry(self._operations.submit_and_wait(asked, timeout=timeout))

    def wait(self, run_id: str, *, timeout: float | None = None) -> Run:
        """The run, as soon as it has ended, completed or failed. After `timeout` seconds WaitTimeoutError."""
        return self._carry(self._operations.wait(run_id, timeout=timeout))

    def stream(self, run_id: str, *, timeout: float | None = None) -> Iterator[Followed]:
        """Each step of a run once, in order, with its pack's progress between them; ends with the run.

        A connection that breaks is opened again where it broke. Progress is news, no step: it may be lost or repeated.
        """
        ends = None if timeout is None else time.monotonic() + timeout
        follower = Follower(run_id, self._operations.retries, ends)
        while not follower.ended:
            request = self._platform.request(self._http, follower.ask())
            try:
                yield from self._connection(follower, request)
            except httpx2.HTTPError as broken:
                follower.lost(type(broken).__name__)
            if not follower.ended:
                self._pause(follower.pause)

    def _connection(self, follower: Follower, request: httpx2.Request) -> Iterator[Followed]:
        response = self._http.send(request, stream=True)
        try:
            match response.status_code:
                case httpx2.codes.NO_CONTENT:
                    follower.ended = True
                case httpx2.codes.OK:
                    for some in response.iter_bytes():
                        yield from follower.read(some)
                        if follower.is_late():
                            break
                    if not follower.ended:
                        follower.closed(seconds_of(response.headers.get("retry-after")))
                case status:
                    said = response.read()
                    follower.refused(api_error(status, dict(response.headers), said))
        finally:
            response.close()

    def get(self, run_id: str) -> Run:
        return self._carry(self._operations.get(run_id))

    def cancel(self, run_id: str) -> Run:
        """Queued, it costs nothing; at work, the minimum fee. ConflictError: it is finishing, or has ended."""
        return self._carry(self._operations.cancel(run_id))

    def delete_data(self, run_id: str) -> None:
        """Delete what an ended run was given and made. What it cost stays in the books."""
        self._carry(self._operations.delete_data(run_id))

    def list(
        self,
        *,
        status: str | None = None,
        pack_type: str | None = None,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
        page_size: int = 50,
    ) -> Iterator[RunSummary]:
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

    def download(self, run_id: str, *, artifact: str | None = None, to: str | Path | None = None) -> bytes:
        """The result of a completed run, or a file beside it, checked against its SHA-256.

        With `to` it is written there too, whole or not at all.
        """
        content = self._carry(self._operations.download(run_id, artifact))
        if to is not None:
            write_whole(Path(to), content)
        return content

    def upload(self, file: str | Path | bytes, *, filename: str | None = None, content_type: str | None = None) -> str:
        """Put a file where packs read it; answers the key to name it by in `inputs`."""
        content = file if isinstance(file, bytes) else Path(file).read_bytes()
        name = filename or ("file" if isinstance(file, bytes) else Path(file).name)
        return self._carry(self._operations.upload(content, name, content_type))

    def budget(self) -> Budget:
        return self._carry(self._operations.budget())

    def entries(
        self,
        *,
        kind: str | None = None,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
        page_size: int = 50,
    ) -> Iterator[Entry]:
        """The ledger's entries, the newest first."""
        asked = {"kind": kind, "created_from": created_from, "created_to": created_to, "limit": page_size}
        return self._pages(lambda cursor: self._operations.entries(cursor, asked))

    def usage(
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
        return self._carry(self._operations.usage(asked))

    def keys(self, *, page_size: int = 50) -> Iterator[ApiKey]:
        """What each key spent, and its caps; without `keys:write` the own key alone."""
        return self._pages(lambda cursor: self._operations.keys(cursor, {"limit": page_size}))

    def packs(self) -> Packs:
        return self._carry(self._operations.packs())

    def _pages(self, plan_of: Callable[[str | None], Plan[Page[D]]]) -> Iterator[D]:
        cursor: str | None = None
        while True:
            page = self._carry(plan_of(cursor))
            yield from page.items
            if (cursor := page.next_cursor) is None:
                return

    def _carry(self, plan: Plan[T]) -> T:
        """Do what the plan asks for, one thing after the other."""
        try:
            step = next(plan)
            while True:
                if isinstance(step, Pause):
                    self._pause(step.seconds)
                    step = plan.send(None)
                else:
                    step = plan.send(self._send(step))
        except StopIteration as ended:
            result: T = ended.value
            return result

    def _send(self, ask: Ask) -> Answer | Lost:
        try:
            return answer_of_response(self._http.send(self._platform.request(self._http, ask)))
        except httpx2.HTTPError as error:
            return lost_in_transport(error)

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)
