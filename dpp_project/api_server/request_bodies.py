"""Bodies are read on the loop, in bounded time and memory, before a thread is taken for their request.

What bodies hold is bounded for all, and for each source (a tenant, or an address without a key): those that are whole
and wait for a thread cannot be cut, so that one source's could keep out everybody else's.

The loop does not read a body that is too long for its address. Django gets the announced length all the same and
refuses it in its own order, after key, scope and rate.
"""

import asyncio
import io
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from django.core.exceptions import RequestDataTooBig

from dpp_project.api_server.body_rules import BodyRule
from dpp_project.api_server.wsgi_environ import Environ
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

RETRY_AFTER_SECONDS: Final = 2


@dataclass(frozen=True)
class BodyLimits:
    """How long a body may take, and how much all bodies of a process may hold until their requests are answered."""

    seconds: float = 10.0
    bytes_per_further_second: int = 65_536
    seconds_when_stopping: float = 5.0
    held_bytes: int = 67_108_864
    held_bytes_of_source: int = 16_777_216

    def seconds_for(self, size: int) -> float:
        return self.seconds + size / self.bytes_per_further_second


class UnreadBody(io.RawIOBase):
    """Stands for a body that is longer than its address takes."""

    def read(self, _size: int = -1) -> bytes:
        raise RequestDataTooBig


class _Reading:
    """One body on its way."""

    def __init__(self, timeout: asyncio.Timeout, source: Hashable) -> None:
        self.source = source
        self._timeout = timeout
        self._problem: Problem | None = None

    def may_last_until(self, when: float) -> None:
        if self._problem is None:
            self._timeout.reschedule(when)

    def must_end_by(self, when: float, problem: Problem) -> None:
        due = self._timeout.when()
        if self._problem is None and (due is None or due > when):
            self._problem = problem
            self._timeout.reschedule(when)

    def is_called_off(self) -> bool:
        return self._problem is not None

    def ends_by(self, moment: float) -> bool:
        due = self._timeout.when()
        return due is not None and due <= moment

    def problem(self) -> Problem:
        return self._problem or Problem(
            ReasonCode.REQUEST_TIMEOUT, "The body did not come in time.", headers={"Connection": "close"}
        )


class RequestBodies:
    """The bodies of one process."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits
        self._held = 0
        self._held_of: Counter[Hashable] = Counter()
        self._readings: dict[_Reading, None] = {}  # the oldest first
        self._stops_at: float | None = None

    @property
    def held(self) -> int:
        return self._held

    def release(self, size: int, source: Hashable) -> None:
        self._held -= size
        self._held_of[source] -= size
        if not self._held_of[source]:
            del self._held_of[source]

    def stop(self) -> None:
        """The process is about to end: what is still being read has a short time left."""
        self._stops_at = asyncio.get_running_loop().time() + self._limits.seconds_when_stopping
        for reading in self._readings:
            reading.must_end_by(self._stops_at, _stopping())

    async def read(self, environ: Environ, receive: Receive, rule: BodyRule, source: Hashable) -> int:
        """Put the body into `environ`; answers how many bytes are held until `release`. Raises a Problem."""
        is_chunked = "HTTP_TRANSFER_ENCODING" in environ
        size = None if is_chunked else int(environ.get("CONTENT_LENGTH") or 0)
        if size == 0 or rule.max_bytes == 0:
            environ["wsgi.input"] = io.BytesIO()
            if size != 0:
                environ["CONTENT_LENGTH"] = "0"
            return 0
        if size is not None and size > rule.max_bytes:
            environ["wsgi.input"] = UnreadBody()
            return 0
        body = await self._read(receive, size, rule.max_bytes, source)
        environ["CONTENT_LENGTH"] = str(len(body))
        if len(body) <= rule.max_bytes:
            environ["wsgi.input"] = io.BytesIO(body)
            return len(body)
        self.release(len(body), source)
        environ["wsgi.input"] = UnreadBody()
        return 0

    async def _read(self, receive: Receive, size: int | None, max_bytes: int, source: Hashable) -> bytes:
        """As many bytes as announced; of chunks, at most one more than `max_bytes` are wanted."""
        started = asyncio.get_running_loop().time()
        body = bytearray()
        is_whole = False
        reading: _Reading | None = None
        try:
            async with asyncio.timeout_at(started + self._limits.seconds_for(size or 0)) as timeout:
                reading = self._begin(timeout, source)
                while len(body) < size if size is not None else len(body) <= max_bytes:
                    message = await receive()
                    chunk = message.get("body", b"")
                    body += chunk
                    self._hold(len(chunk), reading)
                    if not message.get("more_body", False):
                        if message["type"] == "http.disconnect" or (size is not None and len(body) < size):
                            raise _cut_off()
                        break
                    if size is None:
                        reading.may_last_until(started + self._limits.seconds_for(len(body)))
            is_whole = True
        except TimeoutError:
            raise (reading.problem() if reading else _stopping()) from None
        finally:
            if reading is not None:
                del self._readings[reading]
            if not is_whole:
                self.release(len(body), source)
        return bytes(body)

    def _begin(self, timeout: asyncio.Timeout, source: Hashable) -> _Reading:
        reading = _Reading(timeout, source)
        self._readings[reading] = None
        if self._stops_at is not None:
            reading.must_end_by(self._stops_at, _stopping())
        return reading

    def _hold(self, size: int, reading: _Reading) -> None:
        """Where all hold too much, the body that has been on its way the longest makes room: an honest one is short."""
        self._held += size
        self._held_of[reading.source] += size
        if self._held_of[reading.source] > self._limits.held_bytes_of_source:
            own = (one for one in self._readings if one.source == reading.source)
            self._make_room(own, reading, _too_much_of_source())
        elif self._held > self._limits.held_bytes:
            self._make_room(self._readings, reading, _no_room())

    def _make_room(self, among: Iterable[_Reading], reading: _Reading, problem: Problem) -> None:
        now, candidates = asyncio.get_running_loop().time(), list(among)
        if any(one.ends_by(now) for one in candidates):
            return  # called off already: its bytes go in this turn of the loop or the next
        oldest = next((one for one in candidates if not one.is_called_off()), reading)
        if oldest is reading:
            raise problem
        oldest.must_end_by(now, problem)


def _problem_of_untaken_body(detail: str) -> Problem:
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS), "Connection": "close"}
    return Problem(ReasonCode.SERVICE_UNAVAILABLE, detail, headers=headers)


def _stopping() -> Problem:
    return _problem_of_untaken_body("This server is stopping; another one takes the request.")


def _no_room() -> Problem:
    return _problem_of_untaken_body("The server holds as many bodies as it can.")


def _too_much_of_source() -> Problem:
    return Problem(
        ReasonCode.RATE_LIMITED,
        "The bodies of your requests hold as much at once as they may.",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS), "Connection": "close"},
    )


def _cut_off() -> Problem:
    return Problem(ReasonCode.MALFORMED_REQUEST, "The body broke off before its end.")
