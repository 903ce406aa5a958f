"""Django's WSGI handler, run in threads; the loop sends what it answers."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from dpp_project.api_server.fair_threads import FairThreads
from dpp_project.api_server.request_bodies import Receive
from dpp_project.api_server.wsgi_environ import Environ

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Django = Callable[[Environ, Callable[..., Any]], Any]
"""Django's WSGI handler: an environ and `start_response` in, a response out."""

log = structlog.get_logger("dpp.api_server")

BLOCK_BYTES: Final = 65_536
ENDING_SECONDS: Final = 0.5
"""For the end of a streamed answer to leave, while its thread waits for that."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    async def send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        is_measured = self.body and any(name == b"Content-Length" for name, _value in self.headers)
        if not is_measured:  # then the headers say what they say, and the server adds no length of its own
            await send({"type": "http.response.body", "body": self.body, "more_body": True})
        await send({"type": "http.response.body", "body": self.body if is_measured else b""})


def ask(django: Django, environ: Environ) -> tuple[Any, int, list[tuple[bytes, bytes]]]:
    """Django's response with its status and headers. The caller takes the body and closes the response."""
    heads: list[tuple[str, list[tuple[str, str]]]] = []
    response = django(environ, lambda status, headers, _exc_info=None: heads.append((status, headers)))
    status, headers = heads[-1]
    return response, int(status[:3]), [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


@dataclass(frozen=True)
class StreamLimits:
    """How long an answer in pieces may wait for its client: all in all, as a body may."""

    seconds: float = 10.0
    bytes_per_further_second: int = 65_536

    def seconds_for(self, sent: int) -> float:
        return self.seconds + sent / self.bytes_per_further_second


class DjangoThreads:
    """As many requests at once as there are threads; the others wait for one, and hold none."""

    def __init__(self, django: Django, count: int, limits: "StreamLimits") -> None:
        self._django = django
        self._limits = limits
        self._threads = FairThreads(count, name="django")

    def close(self) -> None:
        self._threads.close()

    def seconds_stuck(self) -> float:
        return self._threads.seconds_stuck()

    async def answer(
        self, environ: Environ, source: Hashable, receive: Receive, send: Send, *, cut: Callable[[], None]
    ) -> Answer | None:
        """The answer, still to be sent; None where it was streamed. Raises TooManyWaiting."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer | None] = loop.create_future()
        stream = _Stream(loop, self._limits, receive, send, cut)
        self._threads.run(source, lambda: self._run(environ, answered, stream))
        return await answered

    def _run(self, environ: Environ, answered: "asyncio.Future[Answer | None]", stream: "_Stream") -> None:
        """In a thread. The answer is on its way before the response is closed, which gives the connection back."""
        response: Any = None
        try:
            response, status, headers = ask(self._django, environ)
            if response.streaming:
                stream.send_all(Answer(status, headers, b""), response)
                answer = None
            else:
                answer = Answer(status, headers, b"".join(response))
            stream.loop.call_soon_threadsafe(_tell, answered, answer)
        finally:
            if (error := sys.exc_info()[1]) is not None:  # the loop waits, also where it is a SystemExit
                stream.loop.call_soon_threadsafe(_fail, answered, error)
            if response is not None:
                response.close()


def _tell(answered: "asyncio.Future[Answer | None]", answer: Answer | None) -> None:
    if not answered.done():
        answered.set_result(answer)


def _fail(answered: "asyncio.Future[Answer | None]", error: BaseException) -> None:
    if not answered.done():
        fault = RuntimeError("Django's handler raised")
        fault.__cause__ = error
        answered.set_exception(fault)


class _Stream:
    """An answer that a thread sends piece by piece, no faster than its client takes it, and no slower than it must."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: StreamLimits,
        receive: Receive,
        send: Send,
        cut: Callable[[], None],
    ) -> None:
        self.loop = loop
        self._limits = limits
        self._receive = receive
        self._send = send
        self._cut = cut
        self._gone: asyncio.Future[None] | None = None
        self._sent_bytes = 0
        self._waited_seconds = 0.0

    def send_all(self, head: Answer, pieces: Iterable[bytes]) -> None:
        """In the thread. A fault of the generator ends the answer where it stands: its head is long gone."""
        try:
            self._do(self._begin(head))
            for block in _gathered(pieces):
                self._do(self._send_block(block))
        except ConnectionAbortedError:
            log.info("client left during a streamed answer", status=head.status)
        except TimeoutError:
            log.info("client took a streamed answer too slowly", status=head.status, sent_bytes=self._sent_bytes)
            self._cut()
        except Exception as error:
            log.exception("streamed answer broke off", status=head.status, exc_info=error)
        finally:
            self._do(self._finish())

    def _do(self, step: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(step, self.loop).result()

    async def _begin(self, head: Answer) -> None:
        self._gone = asyncio.ensure_future(_until_gone(self._receive))
        await self._send({"type": "http.response.start", "status": head.status, "headers": head.headers})

    async def _send_block(self, block: bytes) -> None:
        if self._gone is None or self._gone.done():
            raise ConnectionAbortedError
        began = self.loop.time()
        left = self._limits.seconds_for(self._sent_bytes) - self._waited_seconds
        async with asyncio.timeout(left):
            await self._send({"type": "http.response.body", "body": block, "more_body": True})
        self._waited_seconds += self.loop.time() - began
        self._sent_bytes += len(block)

    async def _finish(self) -> None:
        """The end of the answer, which may not be taken either."""
        if self._gone is not None:
            self._gone.cancel()
        ending = asyncio.ensure_future(self._send({"type": "http.response.body", "body": b""}))
        await asyncio.wait({ending}, timeout=ENDING_SECONDS)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A row of a table is a piece, and each block costs a change of threads."""
    block = bytearray()
    for piece in pieces:
        block += piece
        if len(block) >= BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)
