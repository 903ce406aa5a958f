"""All URLs of a run, side by side, within its time and its hold.

A page's price is set aside before it is fetched and charged when it has come: the sum never passes the hold, and what
failed is free. Where the hold is short, pages wait for the price of others to come free, and those it does not reach
are logged; what was fetched until then is the result.
"""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from pydantic import JsonValue

from dpp_project.outbound.refusals import Blocked, Failure, Refused
from runs.packs.pack import HoldExhausted, Meter, Work
from runs.packs.url.content import Kind
from runs.packs.url.fetching import FetchedPage, Fetcher
from runs.packs.url.inputs import UrlInputs
from runs.packs.url.reasons import Discarded

RUN_MICROS: Final = 1_000
PAGE_MICROS: Final = 2_000
FINISH_SECONDS: Final = 2.0
FINISH_SHARE: Final = 0.2
"""Of the run's time, to answer what there is rather than be killed with it."""


class Reads(Protocol):
    def read(self, page: FetchedPage) -> dict[str, Any] | None:
        """title, excerpt and characters, or None."""


class Purse:
    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._set_aside = 0

    def set_aside(self) -> bool:
        if (self._set_aside + 1) * PAGE_MICROS > self._meter.left_micros:
            return False
        self._set_aside += 1
        return True

    def take(self, *, charge: bool) -> None:
        self._set_aside -= 1
        if charge:
            self._meter.charge(PAGE_MICROS)


class Gathering:
    def __init__(self, work: Work[UrlInputs], fetcher: Fetcher, reader: Reads) -> None:
        self._work = work
        self._fetcher = fetcher
        self._reader = reader
        self._purse = Purse(work.meter)
        self._finish_at = work.deadline - min(FINISH_SECONDS, FINISH_SHARE * work.seconds_left())
        self._fetching: set[asyncio.Task[FetchedPage | None]] = set()
        self._pages: dict[str, FetchedPage] = {}
        self._texts: dict[str, dict[str, Any]] = {}
        self._asked = self._done = 0
        # One thread: the reader reads one page at a time.
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="read")

    async def run(self) -> dict[str, JsonValue]:
        if self._work.meter.left_micros < RUN_MICROS + PAGE_MICROS:
            raise HoldExhausted
        self._work.meter.charge(RUN_MICROS)
        asked = list(self._to_fetch())
        self._asked = len(asked)
        try:
            async with asyncio.TaskGroup() as group:
                for url in asked:
                    await self._start(group, url)
        finally:
            self._reading.shutdown(wait=False, cancel_futures=True)
        good = sum(page.is_success for page in self._pages.values())
        self._work.reliability = good / len(asked)
        return {"results": [self._result(url) for url in asked if url in self._pages]}

    def _to_fetch(self) -> Iterator[str]:
        unique = list(dict.fromkeys(self._work.inputs.urls))
        for url in {url for url in unique if self._work.inputs.urls.count(url) > 1}:
            self._discard(url, Discarded.DUPLICATE_URL)
        for position, url in enumerate(unique):
            if position < self._work.inputs.max_urls:
                yield url
            else:
                self._discard(url, Discarded.MAX_URLS)

    async def _start(self, group: asyncio.TaskGroup, url: str) -> None:
        """Begin to fetch it, as soon as the hold allows; or log why not."""
        while not self._purse.set_aside():
            if not self._fetching:
                self._work.log("hold exhausted", left_micros=self._work.meter.left_micros)
                return self._discard(url, Discarded.HOLD_EXHAUSTED)
            await asyncio.wait(self._fetching, return_when=asyncio.FIRST_COMPLETED)
        if self._seconds_left() <= 0:
            self._purse.take(charge=False)
            return self._discard(url, Discarded.TIMEBOX)
        task = group.create_task(self._fetch(group, url))
        self._fetching.add(task)
        task.add_done_callback(self._fetching.discard)
        return None

    async def _fetch(self, group: asyncio.TaskGroup, url: str) -> None:
        page = None
        try:
            page = await self._page(url)
        except Refused as refused:
            self._refuse(url, refused)
        except Exception as error:  # noqa: BLE001  one page that we did not foresee does not take the others with it
            self._work.log("fetch stopped on an exception", exception=type(error).__name__)
            self._discard(url, Failure.PROTOCOL_ERROR)
        finally:
            self._purse.take(charge=page is not None and page.is_success)
            self._tell_done()
        if page is not None:
            self._pages[url] = page
            if page.truncated:
                self._discard(url, Discarded.CONTENT_TOO_LARGE)
            if page.kind is not Kind.OTHER:
                group.create_task(self._read(url, page))

    def _tell_done(self) -> None:
        """Of those that may be fetched; the hold or the time may end it before all of them are."""
        self._done += 1
        self._work.tell(percent=round(100 * self._done / self._asked, 1), note=f"{self._done} of {self._asked} pages")

    async def _page(self, url: str) -> FetchedPage:
        """Its time begins with its turn; without a turn before the run must end, none is left."""
        try:
            async with asyncio.timeout(max(0.0, self._seconds_left())) as waiting, self._fetcher.turn(url):
                waiting.reschedule(None)
                seconds = min(self._work.inputs.fetch_timeout_sec, self._seconds_left())
                return await self._fetcher.fetch(url, seconds=seconds)
        except TimeoutError:
            raise Refused(Discarded.TIMEBOX) from None

    async def _read(self, url: str, page: FetchedPage) -> None:
        """Its text, if there is still time for it."""
        reading = asyncio.get_running_loop().run_in_executor(self._reading, self._reader.read, page)
        done, _ = await asyncio.wait([reading], timeout=max(0.0, self._seconds_left()))
        if not done:
            reading.cancel()
        elif (text := reading.result()) is not None:
            self._texts[url] = text

    def _seconds_left(self) -> float:
        return self._finish_at - time.monotonic()

    def _refuse(self, url: str, refused: Refused) -> None:
        entry: dict[str, JsonValue] = {"url": url, "reason": refused.reason.value}
        if refused.at is not None:
            entry["at"] = refused.at
        if isinstance(refused.reason, Blocked):
            self._work.blocked_log.append(entry | {"resolved_ip": refused.typed_ip})
        else:
            self._work.discard_log.append(entry)

    def _discard(self, url: str, reason: Discarded | Failure) -> None:
        self._work.discard_log.append({"url": url, "reason": reason.value})

    def _result(self, url: str) -> dict[str, JsonValue]:
        page = self._pages[url]
        text = self._texts.get(url, {})
        notes: list[JsonValue] = ["TRUNCATED"] if page.truncated else []
        if page.kind is Kind.OTHER:
            notes.append("NOT_TEXT")
        elif text.get("characters") is None:
            notes.append("TEXT_NOT_READ")
        return {
            "url": url,
            "final_url": page.final_url,
            "status_code": page.status_code,
            "content_type": page.content_type,
            "title": text.get("title"),
            "text_excerpt": text.get("excerpt"),
            "text_characters": text.get("characters"),
            "notes": notes,
            "fetched_at": page.fetched_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
