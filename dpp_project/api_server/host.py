"""One process of the API: the loop takes requests in, decides who answers, and says what only it can know.

Whatever may be slow on the client's side (a body, a connection that says nothing, an answer that is not taken) waits
on the loop and holds no thread. Whatever may be slow on ours runs in a thread.
"""

import asyncio
import io
import signal
from collections import Counter
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import structlog

from dpp_project.api_server import body_rules, wsgi_environ
from dpp_project.api_server.connections import ConnectionLimits, ConnectionWatch
from dpp_project.api_server.django_threads import Answer, Django, DjangoThreads, Send, StreamLimits, ask_django
from dpp_project.api_server.fair_threads import TooManyWaiting
from dpp_project.api_server.request_bodies import BodyLimits, Receive, RequestBodies
from dpp_project.api_server.strangers import KnownKeys, StrangerLimits, Strangers
from dpp_project.api_server.stuck import EndWhenStuck, StuckLimits
from dpp_project.api_server.wsgi_environ import Environ
from dpp_project.constants import RATE_LIMIT_RETRY_AFTER_SECONDS
from dpp_project.http import refused_by_server
from dpp_project.http.client_address import ClientAddresses, site_of
from dpp_project.http.problems import Problem
from dpp_project.http.refused_by_server import PROVEN, REFUSED
from dpp_project.observe import spans
from dpp_project.reasons import ReasonCode
from dpp_project.waiting import watcher
from tenants import keys
from tenants.metrics import RATE_LIMITED

if TYPE_CHECKING:
    from dpp_project.heartbeats.pulse import Pulse  # its table needs the apps
    from dpp_project.lifecycle.host_care import HostCare

log = structlog.get_logger("dpp.api_server")

LIVENESS: Final = "/healthz"
TURN_SECONDS: Final = 5.0
"""Answered on the loop: that it lives is known there alone when every thread is taken."""
TOO_MANY_REQUESTS: Final = 429
UNAUTHORIZED: Final = 401


@dataclass(frozen=True)
class HostLimits:
    """Of one process. An answer of 429 is held back for `pause_seconds`: who asks again at once gains nothing."""

    bodies: BodyLimits = field(default_factory=BodyLimits)
    streams: StreamLimits = field(default_factory=StreamLimits)
    strangers: StrangerLimits = field(default_factory=StrangerLimits)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    stuck: StuckLimits = field(default_factory=StuckLimits)
    pause_seconds: float = 1.0
    most_pausing: int = 1_000
    most_waiting_of_address: int = 50


class ApiHost:
    """The ASGI application."""

    def __init__(
        self,
        django: Django,
        *,
        threads: int,
        port: int = 0,
        trusted_proxies: Sequence[str] = (),
        limits: HostLimits | None = None,
    ) -> None:
        self._limits = limits or HostLimits()
        self._django = django
        self._threads = DjangoThreads(django, threads, self._limits.streams)
        self._addresses = ClientAddresses(trusted_proxies)
        self._known = KnownKeys()
        self._strangers = Strangers(self._limits.strangers)
        self._probes = Strangers(self._limits.strangers)
        self._connections = ConnectionWatch(port, self._limits.connections, is_exempt=self._addresses.is_proxy)
        self._pausing = 0
        self._waiting: Counter[str] = Counter()
        self.bodies = RequestBodies(self._limits.bodies)
        self.pulse: Pulse | None = None
        self.care: HostCare | None = None
        self.answered = 0
        self.turns = 0
        """Of the loop, counted while it has nothing else to do as well."""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            environ = wsgi_environ.environ_of(scope)
            environ["REMOTE_ADDR"] = self._addresses.of(environ["REMOTE_ADDR"], environ.get("HTTP_X_FORWARDED_FOR", ""))
            await self._answer(environ, receive, send, peer=scope["client"])

    async def _answer(self, environ: Environ, receive: Receive, send: Send, *, peer: tuple[str, Any]) -> None:
        try:
            if environ["PATH_INFO"] == LIVENESS:
                if self._probes.take(environ["REMOTE_ADDR"]):
                    await self._pause()  # a supervisor must be answered, beside a flood of its address too
                await self._alive(environ).send(send)
                return
            source, has_paid = await self._admitted(environ)
            whose = source or site_of(environ["REMOTE_ADDR"])
            held = await self.bodies.read(environ, receive, body_rules.body_rule_for(environ), whose)
            try:
                answer = await self._threads.answer(
                    environ, whose, receive, send, cut=lambda: self._connections.cut(peer[0], int(peer[1]))
                )
            finally:  # an answer may be held back, or not be taken, for long
                self.bodies.release(held, whose)
            self._learn(environ, source, answer, has_paid=has_paid)
            if answer is not None:
                if answer.status == TOO_MANY_REQUESTS:
                    await self._pause()
                await answer.send(send)
        except Problem as problem:
            if problem.reason is ReasonCode.RATE_LIMITED:
                await self._pause()
            await self._refused(environ, problem).send(send)
        except TooManyWaiting:
            await self._pause()
            await self._refused(environ, _too_many_at_once()).send(send)
        except Exception as error:  # the client gets an answer all the same
            log.exception("request failed outside of Django", exc_info=error)
            fault = Problem(ReasonCode.INTERNAL_ERROR, "The request could not be completed.")
            await self._refused(environ, fault).send(send)
        finally:
            self.answered += 1

    async def _admitted(self, environ: Environ) -> tuple[str | None, bool]:
        """The tenant of a key that was valid lately; without one, whether the address has paid.

        Where it cannot, a Problem is raised before a byte of the body is read and before a thread is taken. What has
        the form of a key waits instead, in bounded number: a customer beside a flood is a stranger here just once.
        """
        header = environ.get("HTTP_AUTHORIZATION", "")
        tenant = self._known.tenant_of(header) if header else None
        if tenant is not None or not (seconds := self._strangers.take(environ["REMOTE_ADDR"])):
            return tenant, tenant is None
        site = site_of(environ["REMOTE_ADDR"])
        if keys.presented_in(header) is None or not self._may_wait(site):
            RATE_LIMITED.labels("address").inc()
            raise refused_by_server.too_many_of_address(
                per_minute=round(self._limits.strangers.per_second * 60), retry_after_seconds=seconds
            )
        self._waiting[site] += 1
        try:
            await self._pause()
        finally:
            self._waiting[site] -= 1
            if not self._waiting[site]:
                del self._waiting[site]
        return None, False

    def _may_wait(self, site: str) -> bool:
        """Where no more can be held back, a request that would have waited must not pass at once instead."""
        limits = self._limits
        return self._waiting[site] < limits.most_waiting_of_address and self._pausing < limits.most_pausing

    def _learn(self, environ: Environ, source: str | None, answer: Answer | None, *, has_paid: bool) -> None:
        tenant: str | None = environ.get(PROVEN)
        if tenant is not None:
            if source is None:
                self._known.learn(environ["HTTP_AUTHORIZATION"], tenant)
                if has_paid:
                    self._strangers.give_back(environ["REMOTE_ADDR"])
        elif source is not None and (
            (answer is not None and answer.status == UNAUTHORIZED) or self._strangers.take(environ["REMOTE_ADDR"])
        ):
            # No longer valid; or asked for what asks for no key and meters no tenant, more often than a stranger may.
            self._known.forget(environ["HTTP_AUTHORIZATION"])

    async def _pause(self) -> None:
        if self._pausing >= self._limits.most_pausing:
            return
        self._pausing += 1
        try:
            await asyncio.sleep(self._limits.pause_seconds)
        finally:
            self._pausing -= 1

    def _alive(self, environ: Environ) -> Answer:
        stuck = self._threads.seconds_stuck()
        if stuck < self._limits.stuck.unhealthy_seconds:
            return self._here(environ)
        return self._refused(
            environ,
            Problem(
                ReasonCode.SERVICE_UNAVAILABLE,
                f"No thread of this process has answered for {stuck:.0f} s.",
                headers={"Retry-After": "2"},
            ),
        )

    def _refused(self, environ: Environ, problem: Problem) -> Answer:
        """On the loop, which must go on when every thread is taken: no view runs, no service is asked."""
        # Django's requests live until a garbage collection; the frames would keep the connection open until then, too.
        problem.__traceback__ = problem.__context__ = None
        return self._here(environ | {REFUSED: problem})

    def _here(self, environ: Environ) -> Answer:
        bodyless = environ | {"wsgi.input": io.BytesIO(), "CONTENT_LENGTH": "0"}
        response, status, headers = ask_django(self._django, bodyless)
        try:
            return Answer(status, headers, b"".join(response))
        finally:
            response.close()

    def _stop(self) -> None:
        """What waits for a client ends soon, and what waits for something of ours now."""
        self.bodies.stop()
        watcher.stop_all()

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self.turns += 1
        loop.call_later(TURN_SECONDS, self._turn, loop)

    async def _live(self, receive: Receive, send: Send) -> None:
        """The server's shutdown message comes after its last request; its signal comes when those should hurry."""
        loop = asyncio.get_running_loop()
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                _hear(loop, self._stop)
                self._connections.start()
                EndWhenStuck(self._threads.seconds_stuck, self._limits.stuck).start()
                self._turn(loop)
                if self.pulse is not None:
                    self.pulse.start()
                if self.care is not None:
                    self.care.start()
            else:
                self._threads.close()
                if self.pulse is not None:
                    self.pulse.stop()
                if self.care is not None:
                    self.care.stop()
                await asyncio.to_thread(spans.stop_span_export)
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return


def _hear(loop: asyncio.AbstractEventLoop, stop: Any) -> None:
    """Beside the server's own handler, not instead of it: the loop calls that one when it reads its wake-up pipe, which
    the interpreter writes to whatever Python function stands for the signal."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(stop))


def _too_many_at_once() -> Problem:
    return Problem(
        ReasonCode.RATE_LIMITED,
        "Too many of these requests wait at once.",
        headers={"Retry-After": str(RATE_LIMIT_RETRY_AFTER_SECONDS)},
    )
