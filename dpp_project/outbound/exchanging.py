"""A whole HTTP exchange, bounded in time and in size: one request, one answer, no redirect followed."""

import asyncio
import socket
import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from dpp_project.outbound import http_exchange
from dpp_project.outbound.connecting import Rules, connect_outbound
from dpp_project.outbound.http_exchange import Headers, ProtocolBroken, ResponseHead
from dpp_project.outbound.network import Network
from dpp_project.outbound.refusals import Failure, Refused

ANSWER_BYTES_MAX: Final = 1_048_576


@dataclass(frozen=True, kw_only=True)
class OutboundRequest:
    """`headers` are sent beside host and content-length; they may hold a secret, and are never shown."""

    url: str
    method: str = "POST"
    headers: Headers = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)
    answer_bytes_max: int = ANSWER_BYTES_MAX
    is_answer_cut: bool = False
    """A longer answer is cut there, for a caller that does not read it. By default it is Refused."""


@dataclass(frozen=True)
class OutboundAnswer:
    head: ResponseHead
    content: bytes


async def exchange_outbound(
    request: OutboundRequest,
    *,
    rules: Rules,
    network: Network,
    tls: ssl.SSLContext,
    seconds: float,
    connect_seconds: float | None = None,
    caller: str = "",
) -> OutboundAnswer:
    """The answer, whole and within its time, or Refused. An answer too long is Refused too, or cut.

    `connect_seconds`: for the name and the connection, where they have less time than the whole.
    """
    first = seconds if connect_seconds is None else connect_seconds
    try:
        async with asyncio.timeout(seconds):
            connection = await connect_outbound(request.url, rules=rules, network=network, seconds=first, caller=caller)
            return await _outbound_answer(request, connection, tls)
    except TimeoutError:
        raise Refused(Failure.TIMEOUT) from None
    except ssl.SSLError as error:
        raise Refused(Failure.TLS_ERROR) from error
    except (ProtocolBroken, OSError, UnicodeError) as error:
        raise Refused(Failure.PROTOCOL_ERROR) from error


async def _outbound_answer(request: OutboundRequest, connection: socket.socket, tls: ssl.SSLContext) -> OutboundAnswer:
    place = urlsplit(request.url)
    if place.scheme == "https":
        talk = await http_exchange.over_tls(connection, tls, name=place.hostname or "")
    else:
        talk = await http_exchange.exchange_plainly(connection)
    try:
        fixed = [("host", place.netloc.rpartition("@")[2]), ("connection", "close")]
        sized = [("content-length", str(len(request.body)))] if request.body else []
        target = (place.path or "/") + (f"?{place.query}" if place.query else "")
        head = await talk.send(request.method, target, [*fixed, *request.headers, *sized], request.body)
        content = bytearray()
        async for piece in talk.pieces():
            content += piece
            if len(content) > request.answer_bytes_max:
                if request.is_answer_cut:
                    del content[request.answer_bytes_max :]
                    break
                raise ProtocolBroken("too long")
        return OutboundAnswer(head, bytes(content))
    finally:
        talk.close()
