"""A url run as a whole: what is paid, what is logged, and what is left when time or money run out."""

import asyncio
import dataclasses
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from dpp_project.clock import FixedClock
from dpp_project.outbound.refusals import Blocked, Failure
from runs.packs import url as pack
from runs.packs.pack import HoldExhausted, Work
from runs.packs.url import text
from runs.packs.url.fetching import FetchedPage, Fetcher
from runs.packs.url.gathering import PAGE_MICROS, RUN_MICROS, Gathering
from runs.packs.url.reasons import Discarded
from tests.gear.builders import pack_page
from tests.gear.builders.packs import PackLog, fitting, work_for
from tests.gear.servers.web import PAGE_TEXT, PAGE_TITLE, PUBLIC, Loopback, Outside, Web

pytestmark = pytest.mark.contract("DPP-62", "DPP-66")
MANY = [f"https://p{number}.many.example/ok" for number in range(30)]
NAMES = {"good.example": [PUBLIC], "loop.example": ["127.0.0.1"]} | {f"p{n}.many.example": [PUBLIC] for n in range(30)}

STUCK_SECONDS = 20.0


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    made = Web(tmp_path_factory.mktemp("web"))
    yield made
    made.close()


class ReaderHere:
    """Reads in this process; the real one is a process of its own and is shown in test_pack_url_reading.py."""

    def read(self, page: FetchedPage) -> dict[str, Any]:
        return dataclasses.asdict(text.read_url_text(page.body, page.kind, page.charset))


def gather(web: Web, work: Work[Any], *, network: Loopback | None = None, reader: Any = None) -> dict[str, Any]:
    network = network or Loopback(web, NAMES)
    fetcher = Fetcher(Outside(network), network.tls, redirects_max=work.inputs.max_redirect_hops)

    async def whole() -> dict[str, Any]:
        try:
            return await Gathering(work, fetcher, reader or ReaderHere()).run()
        finally:
            await asyncio.sleep(0)

    found: dict[str, Any] = fitting(pack.PACK, asyncio.run(whole()))
    return found


def test_pack_url_answers_the_documents_fields(web: Web, clock: FixedClock) -> None:
    work = work_for(pack.PACK, {"urls": ["https://good.example/gzip"]})
    assert gather(web, work) == {
        "results": [
            {
                "url": "https://good.example/gzip",
                "final_url": "https://good.example/gzip",
                "status_code": 200,
                "content_type": "text/html; charset=utf-8",
                "title": PAGE_TITLE,
                "text_excerpt": PAGE_TEXT,
                "text_characters": len(PAGE_TEXT),
                "notes": [],
                "fetched_at": "2026-03-01T12:00:00.000Z",
            }
        ]
    }
    assert work.meter.spent_micros == RUN_MICROS + PAGE_MICROS
    assert (work.reliability, work.discard_log, work.blocked_log) == (1.0, [], [])


def test_pack_url_does_what_its_page_shows(web: Web, clock: FixedClock) -> None:
    inputs, data, logs = pack_page.shown("url")
    work = work_for(pack.PACK, inputs)
    assert gather(web, work, network=Loopback(web, NAMES | {"docs.example": [PUBLIC]})) == data
    assert {"discard_log": work.discard_log, "blocked_log": work.blocked_log} == logs


def test_pack_url_every_reason_stands_in_its_page() -> None:
    page = pack_page.text("url")
    rows = "".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| ") and line.count("|") == 3)
    assert [
        reason for reason in (*Failure, *Discarded, *Blocked) if reason.value not in rows.replace(",", " ").split()
    ] == []


def test_pack_url_logs_what_it_did_not_fetch_by_the_documents_names(web: Web) -> None:
    urls = [
        "https://good.example/ok",
        "http://good.example/ok",
        "https://good.example/loop",
        "https://good.example/slow",
        "https://good.example/big-text",
        "https://loop.example/ok",
        "https://10.0.0.1/ok",
        "https://good.example/r?https%3A%2F%2F10.0.0.1%2Fsecret",
        "https://good.example/ok",
    ]
    work = work_for(pack.PACK, {"urls": urls, "fetch_timeout_sec": 1})
    found = gather(web, work)
    assert [result["url"] for result in found["results"]] == [urls[0], urls[4]]
    assert found["results"][1]["notes"] == ["TRUNCATED"]
    reasons = {entry["url"]: entry["reason"] for entry in work.discard_log}
    assert reasons == {
        urls[0]: "DUPLICATE_URL",
        urls[1]: "NON_HTTPS",
        urls[2]: "TOO_MANY_REDIRECTS",
        urls[3]: "TIMEOUT",
        urls[4]: "CONTENT_TOO_LARGE",
    }
    assert sorted(work.blocked_log, key=lambda entry: str(entry["url"])) == [
        {"url": urls[6], "resolved_ip": "10.0.0.1", "reason": "PRIVATE_IP"},
        {"url": urls[7], "resolved_ip": None, "reason": "PRIVATE_IP", "at": "https://10.0.0.1/secret"},
        {"url": urls[5], "resolved_ip": None, "reason": "LOOPBACK"},
    ]
    assert work.meter.spent_micros == RUN_MICROS + 2 * PAGE_MICROS
    assert work.reliability == 2 / 8


def test_pack_url_a_page_that_says_no_is_told_and_free(web: Web) -> None:
    work = work_for(pack.PACK, {"urls": ["https://good.example/missing", "https://good.example/pdf"]})
    missing, other = gather(web, work)["results"]
    assert (missing["status_code"], missing["title"]) == (404, PAGE_TITLE)
    assert (other["status_code"], other["text_excerpt"], other["notes"]) == (200, None, ["NOT_TEXT"])
    assert work.meter.spent_micros == RUN_MICROS + PAGE_MICROS


def test_pack_url_an_empty_page_has_an_empty_text(web: Web) -> None:
    (found,) = gather(web, work_for(pack.PACK, {"urls": ["https://good.example/empty"]}))["results"]
    assert (found["title"], found["text_excerpt"], found["text_characters"], found["notes"]) == (None, None, 0, [])


def test_pack_url_thirty_are_fetched_side_by_side(web: Web) -> None:
    """They wait for each other: none answers before all have connected."""

    class Together(Loopback):
        def __init__(self) -> None:
            super().__init__(web, NAMES)
            self.all_there = asyncio.Event()

        async def resolve(self, host: str, *, caller: str = "") -> list[str]:
            found = await super().resolve(host)
            if len(self.asked) == 30:
                self.all_there.set()
            await self.all_there.wait()
            return found

    work = work_for(pack.PACK, {"urls": MANY, "fetch_timeout_sec": 10})
    found = gather(web, work, network=Together())
    assert [result["url"] for result in found["results"]] == MANY
    assert work.meter.spent_micros == RUN_MICROS + 30 * PAGE_MICROS


def test_pack_url_a_hold_for_some_pages_fetches_some_and_says_so(web: Web) -> None:
    said = PackLog()
    work = work_for(pack.PACK, {"urls": MANY[:6]}, hold_micros=RUN_MICROS + 4 * PAGE_MICROS + 1, log=said)
    network = Loopback(web, NAMES)
    found = gather(web, work, network=network)
    assert [result["url"] for result in found["results"]] == MANY[:4]
    assert work.discard_log == [{"url": url, "reason": "HOLD_EXHAUSTED"} for url in MANY[4:6]]
    assert said.events == [("hold exhausted", {"left_micros": 1})] * 2
    assert (work.meter.spent_micros, work.meter.left_micros) == (RUN_MICROS + 4 * PAGE_MICROS, 1)
    assert len(network.dialled) == 4


def test_pack_url_the_price_of_a_page_that_failed_buys_the_next(web: Web) -> None:
    urls = ["https://10.0.0.1/", "https://good.example/missing", "http://good.example/", *MANY[:2]]
    work = work_for(pack.PACK, {"urls": urls}, hold_micros=RUN_MICROS + PAGE_MICROS)
    found = gather(web, work)
    assert [result["url"] for result in found["results"]] == ["https://good.example/missing", MANY[0]]
    assert work.discard_log[-1] == {"url": MANY[1], "reason": "HOLD_EXHAUSTED"}
    assert work.meter.left_micros == 0


@pytest.mark.parametrize("hold", [0, RUN_MICROS, RUN_MICROS + PAGE_MICROS - 1])
def test_pack_url_a_hold_for_no_page_does_nothing(web: Web, hold: int) -> None:
    work = work_for(pack.PACK, {"urls": MANY[:1]}, hold_micros=hold)
    network = Loopback(web, NAMES)
    with pytest.raises(HoldExhausted):
        gather(web, work, network=network)
    assert (work.meter.was_charged, network.asked, network.dialled) == (False, [], [])


def test_pack_url_more_than_max_urls_are_left(web: Web) -> None:
    work = work_for(pack.PACK, {"urls": MANY[:3], "max_urls": 1})
    assert [result["url"] for result in gather(web, work)["results"]] == MANY[:1]
    assert work.discard_log == [{"url": url, "reason": "MAX_URLS"} for url in MANY[1:3]]


def test_pack_url_ends_before_its_timebox_with_what_it_has(web: Web) -> None:
    work = work_for(pack.PACK, {"urls": [MANY[0], "https://good.example/slow"]}, seconds=2.0)
    started = time.monotonic()
    found = gather(web, work)
    assert time.monotonic() - started < 2.0
    assert [result["url"] for result in found["results"]] == MANY[:1]
    assert work.discard_log == [{"url": "https://good.example/slow", "reason": "TIMEOUT"}]


def test_pack_url_what_had_to_wait_for_the_hold_until_the_time_was_over_is_told(web: Web) -> None:
    urls = ["https://good.example/slow", *MANY[:2]]
    work = work_for(pack.PACK, {"urls": urls}, seconds=1.0, hold_micros=RUN_MICROS + PAGE_MICROS)
    assert gather(web, work) == {"results": []}
    assert [entry["reason"] for entry in work.discard_log] == ["TIMEOUT", "TIMEBOX", "TIMEBOX"]
    assert work.meter.spent_micros == RUN_MICROS


def test_pack_url_a_text_that_could_not_be_read_in_time_costs_the_text_alone(web: Web) -> None:
    let_go = threading.Event()

    class Stuck:
        def read(self, page: FetchedPage) -> dict[str, Any] | None:
            stuck_until = time.monotonic() + STUCK_SECONDS
            while time.monotonic() < stuck_until and not let_go.is_set():
                pass
            return None

    work = work_for(pack.PACK, {"urls": [MANY[0]]}, seconds=1.0)
    started = time.monotonic()
    try:
        (found,) = gather(web, work, reader=Stuck())["results"]
    finally:
        let_go.set()
    assert time.monotonic() - started < STUCK_SECONDS / 2
    assert (found["status_code"], found["text_excerpt"], found["notes"]) == (200, None, ["TEXT_NOT_READ"])


def test_pack_url_an_error_nobody_foresaw_takes_one_page_and_is_told_without_its_words(web: Web) -> None:
    class Odd(Loopback):
        async def resolve(self, host: str, *, caller: str = "") -> list[str]:
            if host == "good.example":
                raise RuntimeError("canary")
            return await super().resolve(host)

    said = PackLog()
    work = work_for(pack.PACK, {"urls": ["https://good.example/ok", MANY[0]]}, log=said)
    found = gather(web, work, network=Odd(web, NAMES))
    assert [result["url"] for result in found["results"]] == MANY[:1]
    assert work.discard_log == [{"url": "https://good.example/ok", "reason": "PROTOCOL_ERROR"}]
    assert said.events == [("fetch stopped on an exception", {"exception": "RuntimeError"})]
