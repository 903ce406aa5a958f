"""Fetches one URL, checking each hop.

For every hop, the first as well as each redirect: the URL is read strictly, its name resolved once, all its addresses
checked, and the connection made to an address that was checked, never to the name again. So a name server that answers
differently the next time is not asked a next time. TLS still proves the name.
"""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dpp_project import clock
from runs.packs.shared.http_exchange import Exchange, ProtocolBroken, ResponseHead
from runs.packs.url import addresses, content, locations
from runs.packs.url.content import Kind
from runs.packs.url.locations import Location
from runs.packs.url.network import Allowance, Network
from runs.packs.url.reasons import Blocked, Discarded, FetchRefused

REDIRECTS_MAX: Final = 5
ADDRESSES_TRIED: Final = 3
CONNECT_SECONDS: Final = 4.0
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


@dataclass(frozen=True)
class _Place:
    """Where a connection goes: addresses that were checked, or the one that the operator named."""

    addresses: Sequence[str]
    port: int = locations.PORT
    is_allowed_private: bool = False


class Fetcher:
    def __init__(self, network: Network, allowance: Allowance, *, redirects_max: int = REDIRECTS_MAX) -> None:
        self._network = network
        self._allowance = allowance
        self._redirects_max = min(redirects_max, REDIRECTS_MAX)

    async def fetch(self, url: str, *, seconds: float) -> FetchedPage:
        """The page, within its time, or Refused."""
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(url)
        except TimeoutError:
            raise FetchRefused(Discarded.TIMEOUT) from None

    async def _follow(self, url: str) -> FetchedPage:
        here = locations.parse(url)
        first = here
        for _ in range(self._redirects_max + 1):
            try:
                answer = await self._hop(here)
                if isinstance(answer, FetchedPage):
                    return answer
                here = locations.follow(here, answer)
            except FetchRefused as refused:
                refused.at = here.url if here is not first else None
                raise
        raise FetchRefused(Discarded.TOO_MANY_REDIRECTS)

    async def _hop(self, here: Location) -> FetchedPage | str:
        """The page, or where its server says it is."""
        place = await self._admit(here)
        exchange = await self._connect(here, place)
        try:
            head = await exchange.send("GET", here.target, [("host", here.authority), *_HEADERS])
            where = head.first("location").strip()
            if head.status in _REDIRECTS and where:
                return where
            return await _page(here, head, exchange)
        except (ProtocolBroken, ConnectionError) as error:
            raise FetchRefused(Discarded.PROTOCOL_ERROR) from error
        except ssl.SSLError as error:
            raise FetchRefused(Discarded.TLS_ERROR) from error
        finally:
            exchange.close()

    async def _admit(self, here: Location) -> _Place:
        """The only way to a connection. One address of the name that is not public refuses the name."""
        if (allowed := self._allowance.hosts.get(here.host)) is not None:
            return _Place([allowed[0]], allowed[1], is_allowed_private=True)
        if here.is_internal_name:
            raise FetchRefused(Blocked.INTERNAL_NAME)
        found = [here.host] if here.is_address else await self._resolve(here.host)
        for address in found:
            if (reason := addresses.refusal(address)) is not None:
                raise FetchRefused(reason, resolved_ip=address)
        return _Place(sorted(found, key=lambda address: ":" in address)[:ADDRESSES_TRIED])

    async def _resolve(self, host: str) -> list[str]:
        try:
            found = await self._network.resolve(host)
        except (OSError, UnicodeError) as error:
            raise FetchRefused(Discarded.DNS_ERROR) from error
        if not found:
            raise FetchRefused(Discarded.DNS_ERROR)
        return found

    async def _connect(self, here: Location, place: _Place) -> Exchange:
        for address in place.addresses:
            if not place.is_allowed_private and addresses.refusal(address) is not None:
                raise AssertionError("an address that was not checked reached the socket")
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return Exchange(*await self._network.connect(address, place.port, name=here.host))
            except ssl.SSLError as error:
                raise FetchRefused(Discarded.TLS_ERROR) from error
            except UnicodeError as error:  # a name that TLS cannot send
                raise FetchRefused(Discarded.INVALID_URL) from error
            except OSError:  # TimeoutError among them: the next address may answer
                continue
        raise FetchRefused(Discarded.CONNECT_ERROR)


async def _page(here: Location, head: ResponseHead, exchange: Exchange) -> FetchedPage:
    content_type = head.first("content-type")
    kind = content.kind_of(content_type)
    body, truncated = b"", False
    if kind is not Kind.OTHER:
        body, truncated = await content.read_body(exchange.pieces(), ",".join(head.all("content-encoding")))
        kind = content.sniffed(body) if kind is Kind.UNKNOWN else kind
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
