"""One HTTP/1.1 exchange over a connection that the caller opened and checked.

Nothing here waits longer than the caller's own deadline lets it: all of it runs inside the caller's asyncio.timeout().
What the other side sends is bounded: its head by h11 (16 KiB), the answers before the answer, the pieces of the body.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import certifi
import h11

from dpp_project.outbound import client_tls

CHUNK: Final = 65_536
INTERIM_ANSWERS_MAX: Final = 8
PIECES_MAX: Final = 20_000
"""A body of one-byte chunks costs its reader a thousand times what it costs its sender."""

Headers = Sequence[tuple[str, str]]


class ProtocolBroken(Exception):  # noqa: N818  named for what was met
    """The answer is not HTTP, or ended early."""


@dataclass(frozen=True)
class ResponseHead:
    status: int
    headers: Headers
    """Names in lower case. Values decoded as UTF-8 where they are, as Latin-1 where not."""

    def all(self, name: str) -> list[str]:
        return [value for other, value in self.headers if other == name]

    def first(self, name: str) -> str:
        return next(iter(self.all(name)), "")


class Exchange:
    """Send once, then read the body at most once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._connection = h11.Connection(our_role=h11.CLIENT)

    async def send(self, method: str, target: str, headers: Headers, body: bytes = b"") -> ResponseHead:
        try:
            request = h11.Request(method=method, target=target, headers=list(headers))
            for event in (request, *([h11.Data(data=body)] if body else []), h11.EndOfMessage()):
                self._writer.write(self._connection.send(event) or b"")
            await self._writer.drain()
            for _ in range(INTERIM_ANSWERS_MAX):
                event = await self._next()
                if isinstance(event, h11.Response):
                    return ResponseHead(
                        event.status_code,
                        [(name.decode("ascii"), _answer_header_text(value)) for name, value in event.headers],
                    )
                if not isinstance(event, h11.InformationalResponse):
                    break
        except (h11.ProtocolError, asyncio.IncompleteReadError) as error:
            raise ProtocolBroken(type(error).__name__) from error
        raise ProtocolBroken("no answer")

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        try:
            for _ in range(PIECES_MAX):
                event = await self._next()
                if not isinstance(event, h11.Data):
                    return
                yield bytes(event.data)
        except h11.ProtocolError as error:
            raise ProtocolBroken(type(error).__name__) from error
        raise ProtocolBroken("body in too many pieces")

    async def _next(self) -> h11.Event:
        while (event := self._connection.next_event()) is h11.NEED_DATA:
            self._connection.receive_data(await self._reader.read(CHUNK))
        if not isinstance(event, h11.Event):
            raise ProtocolBroken("paused")
        return event

    def close(self) -> None:
        """Close at once: a proper end of TLS would wait for the peer."""
        self._writer.transport.abort()


def _answer_header_text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


@cache
def tls_trusting(ca_file: str | None = None) -> ssl.SSLContext:
    """Trusts the public authorities, and the one in this file. Made once: it takes milliseconds."""
    tls = client_tls.trusting_alone(certifi.where())
    if ca_file is not None:
        tls.load_verify_locations(cafile=ca_file)
    tls.set_alpn_protocols(["http/1.1"])
    return tls


async def over_tls(connection: socket.socket, tls: ssl.SSLContext, *, name: str) -> Exchange:
    """Takes the connection over. Raises ssl.SSLError, OSError, and UnicodeError for a name that TLS cannot send."""
    try:
        return Exchange(*await asyncio.open_connection(sock=connection, ssl=tls, server_hostname=name))
    except BaseException:
        connection.close()
        raise


async def exchange_plainly(connection: socket.socket) -> Exchange:
    """Takes the connection over, without TLS."""
    try:
        return Exchange(*await asyncio.open_connection(sock=connection))
    except BaseException:
        connection.close()
        raise
