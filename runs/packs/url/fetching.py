"""Fetches one URL, checking each hop.

For every hop, the first as well as each redirect, the URL is read strictly and its connection asked for anew; the
worker resolves, checks and connects (dpp_project/outbound/connecting.py), and this job only talks. TLS still proves the
name.
"""

import asyncio
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dpp_project import clock
from dpp_project.outbound import http_exchange, locations
from dpp_project.outbound.http_exchange import Exchange, ProtocolBroken, ResponseHead
from dpp_project.outbound.locations import Location
from dpp_project.outbound.refusals import Failure, Refused
from runs.packs.pack import AT_ONE_HOST_MAX, Outbound
from runs.packs.url import content
from runs.packs.url.content import Kind
from runs.packs.url.reasons import Discarded

REDIRECTS_MAX: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = (
    ("user-agent", "DPP-url/0.4"),
    ("accept", "text/html,application/xhtml+xml,text/plain;q=0.9,application/json;q=0.8,*/*;q=0.1"),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", "ko,en;q=0.8,*;q=0.5"),
    ("connection", "close"),
)


@dataclass(frozen=True, kw_only=True)
class FetchedPage:
    """The response. `body` is empty for content types without text."""

    final_url: str
    status_code: int
    content_type: str
    kind: Kind
    charset: str
    body: bytes
    truncated: bool
    fetched_at: datetime

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300


class Fetcher:
    """`outbound` connects: the worker's, in a job."""

    def __init__(self, outbound: Outbound, tls: ssl.SSLContext, *, redirects_max: int = REDIRECTS_MAX) -> None:
        self._outbound = outbound
        self._tls = tls
        self._redirects_max = min(redirects_max, REDIRECTS_MAX)
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONE_HOST_MAX))

    @asynccontextmanager
    async def turn(self, url: str) -> AsyncIterator[None]:
        """Wait, outside the time of the fetch, while five others are at the host of this URL."""
        try:
            host = locations.parse_location(url).host
        except Refused:
            yield  # `fetch` says so
            return
        async with self._turns[host]:
            yield

    async def fetch(self, url: str, *, seconds: float) -> FetchedPage:
        """The page, within its time, or Refused."""
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(url, time.monotonic() + seconds)
        except TimeoutError:
            raise Refused(Failure.TIMEOUT) from None

    async def _follow(self, url: str, until: float) -> FetchedPage:
        here = locations.parse_location(url)
        first, typed = here, True  # by the caller
        for _ in range(self._redirects_max + 1):
            try:
                answer = await self._hop(here, until)
                if isinstance(answer, FetchedPage):
                    return answer
                typed = False
                here = locations.follow_location(here, answer)
            except Refused as refused:
                refused.at = here.url if here is not first else None
                refused.typed_ip = refused.typed_ip if typed else None
                raise
        raise Refused(Discarded.TOO_MANY_REDIRECTS)

    async def _hop(self, here: Location, until: float) -> FetchedPage | str:
        """The page, or where its server says it is."""
        async with self._outbound.connection(here.origin, seconds=until - time.monotonic()) as connection:
            try:
                exchange = await http_exchange.over_tls(connection, self._tls, name=here.host)
            except ssl.SSLError as error:
                raise Refused(Failure.TLS_ERROR) from error
            except UnicodeError as error:  # a name that TLS cannot send
                raise Refused(Failure.INVALID_URL) from error
            except OSError as error:
                raise Refused(Failure.CONNECT_ERROR) from error
            try:
                head = await exchange.send("GET", here.target, [("host", here.authority), *_HEADERS])
                where = head.first("location").strip()
                if head.status in _REDIRECTS and where:
                    return where
                return await _fetched_url_page(here, head, exchange)
            except (ProtocolBroken, ConnectionError) as error:
                raise Refused(Failure.PROTOCOL_ERROR) from error
            except ssl.SSLError as error:
                raise Refused(Failure.TLS_ERROR) from error
            finally:
                exchange.close()


async def _fetched_url_page(here: Location, head: ResponseHead, exchange: Exchange) -> FetchedPage:
    content_type = head.first("content-type")
    kind = content.kind_of(content_type)
    body, truncated = b"", False
    if kind is not Kind.OTHER:
        body, truncated = await content.read_body(exchange.pieces(), ",".join(head.all("content-encoding")))
        kind = content.sniffed_kind(body) if kind is Kind.UNKNOWN else kind
    return FetchedPage(
        final_url=here.url,
        status_code=head.status,
        content_type=content_type[:200],
        kind=kind,
        charset=content.charset_of(content_type),
        body=b"" if kind is Kind.OTHER else body,
        truncated=truncated,
        fetched_at=clock.now(),
    )
