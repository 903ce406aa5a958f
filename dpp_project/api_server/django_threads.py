"""Django's WSGI handler, run in threads; the loop sends what it answers."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import structlog

from dpp_project.api_server.fair_threads import FairThreads
from dpp_project.api_server.request_bodies import Receive
from dpp_project.api_server.wsgi_environ import Environ
from dpp_project.http.later import ON_A_LOOP, AnsweredLater, StreamedLater

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


def ask_django(django: Django, environ: Environ) -> tuple[Any, int, list[tuple[bytes, bytes]]]:
    """Django's response with its status and headers. The caller takes the body and closes the response."""
    heads: list[tuple[str, list[tuple[str, str]]]] = []
    response = django(environ, lambda status, headers, _exc_info=None: heads.append((status, headers)))
    status, headers = heads[-1]
    return response, int(status[:3]), _encoded(headers)


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


@dataclass(frozen=True)
class StreamLimits:
    """How long an answer in pieces may wait for its client: all in all, as a body may."""

    seconds: float = 10.0
    bytes_per_further_second: int = 65_536

    def seconds_for(self, sent: int) -> float:
        return self.seconds + sent / self.bytes_per_further_second


@dataclass(frozen=True)
class _ComesInPieces:
    head: Answer
    pieces: Callable[[], AsyncGenerator[bytes, None]]


_FromDjango = Answer | AnsweredLater | _ComesInPieces | None


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
        """The answer, still to be sent; None where it was streamed, or the client left. Raises TooManyWaiting."""
        loop = asyncio.get_running_loop()
        environ[ON_A_LOOP] = True
        answered: asyncio.Future[_FromDjango] = loop.create_future()
        stream = _Stream(loop, self._limits, receive, send, cut)
        self._threads.run(source, lambda: self._run(answered, stream, lambda: ask_django(self._django, environ)))
        answer = await answered
        if isinstance(answer, AnsweredLater):
            return await self._answer_later(answer, source, stream, receive)
        if isinstance(answer, _ComesInPieces):
            await stream.send_as_they_come(answer)
            return None
        return answer

    async def _answer_later(
        self, later: AnsweredLater, source: Hashable, stream: "_Stream", receive: Receive
    ) -> Answer | None:
        """A client that leaves ends the wait; a wait that raises has its exception rendered."""
        waiting = asyncio.ensure_future(later.wait())
        gone = asyncio.ensure_future(_until_gone(receive))
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting})
            self._threads.run(source, later.abandon)
            return None
        came = waiting.exception() or waiting.result()
        answered: asyncio.Future[_FromDjango] = stream.loop.create_future()

        def finish() -> tuple[Any, int, list[tuple[bytes, bytes]]]:
            response = later.finish(came)
            return response, response.status_code, _encoded(response.items())

        self._threads.run(source, lambda: self._run(answered, stream, finish))
        answer = await answered
        assert answer is None or isinstance(answer, Answer)  # noqa: S101  an answer waits once
        return answer

    def _run(
        self,
        answered: "asyncio.Future[_FromDjango]",
        stream: "_Stream",
        make: Callable[[], tuple[Any, int, list[tuple[bytes, bytes]]]],
    ) -> None:
        """In a thread. The answer is on its way before the response is closed, which gives the connection back."""
        response: Any = None
        answer: _FromDjango
        try:
            response, status, headers = make()
            if isinstance(response, AnsweredLater):
                answer = response
            elif isinstance(response, StreamedLater):
                answer = _ComesInPieces(Answer(status, headers, b""), response.pieces)
            elif response.streaming:
                stream.send_all(Answer(status, headers, b""), response)
                answer = None
            else:
                answer = Answer(status, headers, b"".join(response))
            stream.loop.call_soon_threadsafe(_give_django_answer, answered, answer)
        finally:
            if (error := sys.exc_info()[1]) is not None:  # the loop waits, also where it is a SystemExit
                stream.loop.call_soon_threadsafe(_fail, answered, error)
            if response is not None:
                response.close()


def _give_django_answer(answered: "asyncio.Future[_FromDjango]", answer: _FromDjango) -> None:
    if not answered.done():
        answered.set_result(answer)


def _fail(answered: "asyncio.Future[_FromDjango]", error: BaseException) -> None:
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
        except Exception as error:  # its head has gone: no other answer is possible
            log.exception("streamed answer broke off", status=head.status, exc_info=error)
        finally:
            self._do(self._finish())

    async def send_as_they_come(self, answer: _ComesInPieces) -> None:
        """On the loop. A piece that its client does not take in time ends the answer, so that none lie in memory."""
        sending = asyncio.ensure_future(self._send_pieces(answer))
        gone = asyncio.ensure_future(_until_gone(self._receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            sending.cancel()
        await asyncio.wait({sending})
        if sending.cancelled():
            log.info("client left during a streamed answer", status=answer.head.status)
        elif isinstance(sending.exception(), TimeoutError):
            log.info("client took a streamed answer too slowly", status=answer.head.status, sent_bytes=self._sent_bytes)
            self._cut()
        elif (error := sending.exception()) is not None:
            log.error("streamed answer broke off", status=answer.head.status, exc_info=error)
            self._cut()

    async def _send_pieces(self, answer: _ComesInPieces) -> None:
        await self._send({"type": "http.response.start", "status": answer.head.status, "headers": answer.head.headers})
        async with aclosing(answer.pieces()) as pieces:
            async for piece in pieces:
                async with asyncio.timeout(self._limits.seconds):
                    await self._send({"type": "http.response.body", "body": piece, "more_body": True})
                self._sent_bytes += len(piece)
        async with asyncio.timeout(ENDING_SECONDS):
            await self._send({"type": "http.response.body", "body": b""})

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
