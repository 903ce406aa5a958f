"""Fetches web pages for untrusted callers: public addresses over HTTPS only (DPP-62).

inputs.py       the inputs
fetching.py     hop by hop to a page           allowance.py   the operator's exceptions
content.py      unpacking within limits        reading.py     title and text, in processes of their own
gathering.py    all URLs of a run side by side, within its time and its hold

Its connections are made and checked by the worker (dpp_project/outbound/); the job has no network.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from dpp_project.outbound import http_exchange
from dpp_project.outbound.connecting import Rules
from runs.packs.pack import MEBIBYTE, Estimate, Pack, Price, Reach, Work
from runs.packs.url.allowance import CA_FILE, Allowance
from runs.packs.url.content import Kind
from runs.packs.url.fetching import Fetcher
from runs.packs.url.gathering import PAGE_MICROS, RUN_MICROS, Gathering
from runs.packs.url.inputs import UrlInputs
from runs.packs.url.reading import PageTextReader
from runs.packs.url.result import UrlResult


def _url_pack_estimate(inputs: UrlInputs) -> Estimate:
    pages = min(len(dict.fromkeys(inputs.urls)), inputs.max_urls)
    return Estimate(least_micros=RUN_MICROS, most_micros=RUN_MICROS + pages * PAGE_MICROS)


def _missing() -> Sequence[str]:
    try:
        return Allowance.read(os.environ).faults()
    except ValueError as error:
        return [str(error)]


def _execute_url_pack(work: Work[UrlInputs]) -> dict[str, JsonValue]:
    allowance = Allowance.read(os.environ)
    reader = PageTextReader()  # forked first, while this process has one thread
    tls = http_exchange.tls_trusting(allowance.ca_file)
    fetcher = Fetcher(work.outbound, tls, redirects_max=work.inputs.max_redirect_hops)
    try:
        return asyncio.run(Gathering(work, fetcher, reader).run())
    finally:
        reader.close()


def _reach(environ: Mapping[str, str]) -> Reach:
    return Reach(rules=Rules(private_hosts=Allowance.read(environ).hosts))


def _rehearse_url_pack() -> None:
    """Everything but the network: a loop, the authorities that are trusted, and the text of a page."""
    from runs.packs.url import text  # with its libraries: it has no place in the API

    asyncio.run(asyncio.sleep(0))
    http_exchange.tls_trusting()  # kept: each job has it with its fork
    text.read_url_text(_PAGE, Kind.HTML, "utf-8")


_PAGE: Final = b"""<!doctype html><html><head><title>A page</title></head>
<body><header><nav><a href="/">Home</a></nav></header>
<main><article><h1>What it says</h1><p>%s</p><ul><li>One</li><li>Two</li></ul><table><tr><td>1</td></tr></table>
</article></main><footer>The end</footer></body></html>""" % (b"It is as long as pages are that have a text. " * 20)

PACK = Pack(
    name="url",
    summary="Fetches up to 30 public https pages side by side and answers their titles and texts.",
    inputs=UrlInputs,
    result=UrlResult,
    prices=[
        Price(unit="run", micros=RUN_MICROS),
        Price(unit="page", micros=PAGE_MICROS, note="each URL that was answered with a 2xx; others are free"),
    ],
    estimate=_url_pack_estimate,
    execute=_execute_url_pack,
    example={"urls": ["https://example.com/"], "fetch_timeout_sec": 5},
    memory_bytes=448 * MEBIBYTE,
    reach=_reach,
    environment=(CA_FILE,),
    preload=("runs.packs.url.text",),
    rehearsal=_rehearse_url_pack,
    missing=_missing,
)
