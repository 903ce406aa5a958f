"""An answer whose content is not there yet: the server's loop waits for it, and no thread does.

A view answers `AnsweredLater(wait, render)`. Its thread is free at once, its database connection goes back. The loop
awaits `wait()`; what came of it, or the exception, goes to `render` in a thread, and that is the answer. A client that
leaves cancels the wait. Where no loop serves (a test's client, another WSGI server), RequestMiddleware waits by itself.
`StreamedLater(pieces)` is for an answer that comes bit by bit.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, Final

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from dpp_project.http import problems

ON_A_LOOP: Final = "dpp.waits_on_a_loop"
"""The environ's name for a server that waits. No header of a caller can set it: theirs begin with HTTP_."""
CLIENT_LEFT: Final = 499
"""For log and metric; nobody is there to read it."""
_OF_THE_CONTENT: Final = frozenset({"content-type", "content-length"})


class StreamedLater(StreamingHttpResponse):
    """An answer whose pieces come when they come: the loop sends them, and no thread waits for the next.

    `pieces` is called on the loop. It must bound itself, and is closed when the client leaves. Where no loop serves,
    the thread that reads the answer waits.
    """

    def __init__(self, pieces: Callable[[], AsyncGenerator[bytes, None]], *, content_type: str) -> None:
        super().__init__(_made_here(pieces), content_type=content_type)
        self.pieces = pieces


def _made_here(pieces: Callable[[], AsyncGenerator[bytes, None]]) -> Iterator[bytes]:
    with asyncio.Runner() as runner:
        those = pieces()

        async def following() -> bytes | None:
            return await anext(those, None)

        try:
            while (piece := runner.run(following())) is not None:
                yield piece
        finally:
            runner.run(those.aclose())


class AnsweredLater(HttpResponse):
    """`wait` is called on the loop. It must bound itself, and raises nothing that `render` does not know.

    `asked_for`: the client asked to wait so long, and the metric of how long requests take leaves the wait out.
    """

    def __init__(
        self, wait: Callable[[], Awaitable[Any]], render: Callable[[Any], HttpResponse], *, asked_for: bool = False
    ) -> None:
        super().__init__(status=202)
        self.asked_for = asked_for
        self._wait = wait
        self._render = render
        self._begin: Callable[[], object] = lambda: None
        self._account: Callable[[HttpResponseBase], HttpResponseBase] = lambda response: response
        self.waited_seconds = 0.0

    async def wait(self) -> Any:
        began = time.perf_counter()
        try:
            return await self._wait()
        finally:
            self.waited_seconds = time.perf_counter() - began

    def accounted_by(
        self, account: Callable[[HttpResponseBase], HttpResponseBase], *, begin: Callable[[], object] = lambda: None
    ) -> None:
        """What the outermost middleware does with an answer, done with this one when it is there; `begin` is what it
        does before, as a refusal is written with the request's trace id.
        """
        self._account, self._begin = account, begin

    def finish(self, came: Any) -> HttpResponseBase:
        """In a thread: the answer, with what the middleware put on this one."""
        self._begin()
        return self._finished(self._render(came))

    def abandon(self) -> None:
        """The client has left."""
        self._begin()
        self._finished(HttpResponse(status=CLIENT_LEFT, content_type=problems.CONTENT_TYPE)).close()

    def finish_here(self) -> HttpResponseBase:
        return self.finish(asyncio.run(self._waited()))

    async def _waited(self) -> Any:
        try:
            return await self.wait()
        except Exception as error:  # noqa: BLE001  `render` says what becomes of it, as on the loop
            return error

    def _finished(self, response: HttpResponse) -> HttpResponseBase:
        for name, value in self.headers.items():
            if name.lower() not in _OF_THE_CONTENT:
                response.headers.setdefault(name, value)
        response.cookies.update(self.cookies)
        answer = self._account(response)
        if not answer.streaming:
            answer.headers["Content-Length"] = str(len(answer.content))  # type: ignore[attr-defined]
        return answer
