"""One side of an exchange: a connection, and the HTTP that is read from it and written to it, in pieces.

Each wait, for a byte to read or for room to write one, ends after `idle_seconds`.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import h11

CHUNK: Final = 65_536
HEAD_BYTES_MAX: Final = 32_768
LINGER_SECONDS: Final = 2.0
IDLE: Final = 408
PIECES_MAX: Final = 50_000
"""Of one body, beside one for each PIECE_BYTES of it: chunks of one byte cost their reader a thousand times what they
cost their sender."""
PIECE_BYTES: Final = 64


class BrokenOff(Exception):  # noqa: N818  named for what was met
    """The other end left, waited too long, or spoke no HTTP. `status` is what a caller might be told."""

    def __init__(self, said: str, *, status: int = 400) -> None:
        super().__init__(said)
        self.status = status


class Side:
    """As a server to a caller, or as a client to a workspace."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        serving: bool,
        idle_seconds: float,
    ) -> None:
        role = h11.SERVER if serving else h11.CLIENT
        self.http = h11.Connection(our_role=role, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._reader = reader
        self._writer = writer
        self._idle_seconds = idle_seconds
        self._moved_at = 0.0
        writer.transport.set_write_buffer_limits(high=CHUNK)

    async def event(self) -> h11.Event:
        while (event := self._next()) is h11.NEED_DATA:
            await self._read()
        if not isinstance(event, h11.Event) or isinstance(event, h11.ConnectionClosed):
            raise BrokenOff("it broke off")
        return event

    async def pieces(self) -> AsyncIterator[bytes]:
        """Its body, to its end: what has come of it, together."""
        found, count, size = bytearray(), 0, 0
        while True:
            event = self._next()
            if isinstance(event, h11.Data):
                found += event.data
                count, size = count + 1, size + len(event.data)
                if count > PIECES_MAX + size // PIECE_BYTES:
                    raise BrokenOff("its body comes in too many pieces")
                continue
            if found:
                yield bytes(found)
                found.clear()
                await asyncio.sleep(0)  # one that always has more lets the others go first
            if isinstance(event, h11.EndOfMessage):
                return
            if event is not h11.NEED_DATA:
                raise BrokenOff("it broke off")
            await self._read()

    async def send(self, *events: h11.Event) -> None:
        try:
            for event in events:
                self._writer.write(self.http.send(event) or b"")
            async with asyncio.timeout(self._idle_seconds):
                await self._writer.drain()
        except (OSError, TimeoutError, h11.LocalProtocolError) as error:
            raise BrokenOff("it does not take what it is sent") from error
        self._moved_at = asyncio.get_running_loop().time()

    async def leaves(self) -> None:
        """Raises BrokenOff when it does; one that says more than its request is not listened to."""
        try:
            more = await self._reader.read(1)
        except OSError:
            more = b""
        if not more:
            raise BrokenOff("it left")

    async def finish(self) -> None:
        """What was written arrives. Closed before all it sent is read, the answer could be lost on its way."""
        self._writer.transport.set_write_buffer_limits(high=0)
        async with asyncio.timeout(self._idle_seconds):
            await self._writer.drain()
        self._writer.write_eof()
        async with asyncio.timeout(LINGER_SECONDS):
            while await self._reader.read(CHUNK):
                pass

    def close(self) -> None:
        self._writer.transport.abort()

    def _next(self) -> object:
        try:
            return self.http.next_event()
        except h11.RemoteProtocolError as error:
            raise BrokenOff(f"it speaks no HTTP: {error}", status=error.error_status_hint) from None

    async def _read(self) -> None:
        """Idle is one that neither sent nor took anything for so long."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            try:
                async with asyncio.timeout(self._idle_seconds):
                    content = await self._reader.read(CHUNK)
                break
            except OSError as error:
                if not isinstance(error, TimeoutError):
                    raise BrokenOff("its connection broke") from error
                if loop.time() - max(begun, self._moved_at) >= self._idle_seconds:
                    raise BrokenOff("nothing came of it", status=IDLE) from None
        self._moved_at = loop.time()
        self.http.receive_data(content)
