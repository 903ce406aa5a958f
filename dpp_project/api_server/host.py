"""One process of the API: the loop takes requests in, decides who answers, and says what only it can know.

Whatever may be slow on the client's side (a body, a connection that says nothing, an answer that is not taken) waits
on the loop and holds no thread. Whatever may be slow on ours runs in a thread.
"""

import asyncio
import io
import signal
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

import structlog

from dpp_project.api_server import body_rules, wsgi_environ
from dpp_project.api_server.django_threads import Answer, Django, DjangoThreads, Send, ask
from dpp_project.api_server.request_bodies import BodyLimits, Receive, RequestBodies
from dpp_project.api_server.wsgi_environ import Environ
from dpp_project.http.problems import Problem
from dpp_project.http.refused_by_server import REFUSED
from dpp_project.reasons import ReasonCode

if TYPE_CHECKING:
    from dpp_project.heartbeats.pulse import Pulse  # its table needs the apps

log = structlog.get_logger("dpp.api_server")


class ApiHost:
    """The ASGI application."""

    def __init__(self, django: Django, *, threads: int, limits: BodyLimits | None = None) -> None:
        self._django = django
        self._threads = DjangoThreads(django, threads)
        self.bodies = RequestBodies(limits or BodyLimits())
        self.pulse: Pulse | None = None
        self.answered = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await self._answer(wsgi_environ.of(scope), receive, send)

    async def _answer(self, environ: Environ, receive: Receive, send: Send) -> None:
        held = 0
        try:
            held = await self.bodies.read(environ, receive, body_rules.rule_for(environ))
            await self._threads.answer(environ, receive, send)
        except Problem as problem:
            await self._refused(environ, problem).send(send)
        except Exception as error:
            log.exception("request failed outside of Django", exc_info=error)
            fault = Problem(ReasonCode.INTERNAL_ERROR, "The request could not be completed.")
            await self._refused(environ, fault).send(send)
        finally:
            self.bodies.release(held)
            self.answered += 1

    def _refused(self, environ: Environ, problem: Problem) -> Answer:
        """On the loop, which must go on when every thread is taken: no view runs, no service is asked."""
        # Django's requests live until a garbage collection; the frames would keep the connection open until then, too.
        problem.__traceback__ = problem.__context__ = None
        told = environ | {REFUSED: problem, "wsgi.input": io.BytesIO(), "CONTENT_LENGTH": "0"}
        response, status, headers = ask(self._django, told)
        try:
            return Answer(status, headers, b"".join(response))
        finally:
            response.close()

    async def _live(self, receive: Receive, send: Send) -> None:
        """The server's shutdown message comes after its last request; its signal comes when those should hurry."""
        loop = asyncio.get_running_loop()
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                _hear(loop, self.bodies.stop)
                if self.pulse is not None:
                    self.pulse.start()
            else:
                self._threads.close()
                if self.pulse is not None:
                    self.pulse.stop()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return


def _hear(loop: asyncio.AbstractEventLoop, stop: Any) -> None:
    """Beside the server's own handler, not instead of it: the loop calls that one when it reads its wake-up pipe, which
    the interpreter writes to whatever Python function stands for the signal."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(stop))
