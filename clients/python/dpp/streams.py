"""Server-sent events, cut off anywhere: what was read whole is handed on once, and the rest is asked for again."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from dpp.documents import Progress, StepEvent, document_of
from dpp.errors import ApiError, ConnectionLostError, UnexpectedAnswerError, WaitTimeoutError
from dpp.exchange import Ask, exchange_backoff, pause_for
from dpp.operations import run_path

SILENCE_SECONDS: Final = 45.0
"""A ping comes every 15 s: three missing are a connection that is dead."""
_EVENT_BYTES_MAX: Final = 1_048_576


@dataclass
class Follower:
    """Where one has got to in a run's events; it knows neither sockets nor clocks."""

    run_id: str
    retries: int
    ends: float | None = None
    last: int = 0
    ended: bool = False
    pause: float = 0.0
    _seconds: float = SILENCE_SECONDS
    _has_pinged: bool = False
    _turn: int = 0
    _retry_seconds: float = 2.0
    _rest: bytes = b""
    _lines: list[bytes] = field(default_factory=list)

    def ask(self) -> Ask:
        """For what comes after the last whole event. Half an event of the connection before is nothing."""
        if self.ends is not None and time.monotonic() >= self.ends:
            raise WaitTimeoutError(self.run_id)
        self._rest, self._lines = b"", []
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self.last:
            headers["Last-Event-ID"] = str(self.last)
        left = SILENCE_SECONDS if self.ends is None else self.ends - time.monotonic()
        self._seconds, self._has_pinged = max(0.1, min(SILENCE_SECONDS, left)), False
        return Ask("GET", f"{run_path(self.run_id)}/events", (), headers, seconds=self._seconds)

    def read(self, some: bytes) -> Iterator[StepEvent | Progress]:
        """The events that are whole with these bytes."""
        *lines, self._rest = (self._rest + some).split(b"\n")
        if len(self._rest) + sum(map(len, self._lines)) > _EVENT_BYTES_MAX:
            raise UnexpectedAnswerError("an event has no end")
        for ended_line in lines:
            line = ended_line.removesuffix(b"\r")
            if line.startswith(b":"):  # a ping: the connection is alive
                self._turn, self._has_pinged = 0, True
                continue
            if line:
                self._lines.append(line)
                continue
            found, self._lines = self._event(self._lines), []
            if found is not None:
                yield found
        if self.ends is not None and not self.ended and time.monotonic() >= self.ends:
            raise WaitTimeoutError(self.run_id)

    def is_late(self) -> bool:
        """This connection may now be silent for longer than there is time: it is opened anew, with less patience."""
        return self._has_pinged and self.ends is not None and self.ends - time.monotonic() < self._seconds - 1.0

    def _event(self, lines: list[bytes]) -> StepEvent | Progress | None:
        told: dict[str, str] = {}
        for line in lines:
            name, _, value = line.decode("utf-8", "replace").partition(":")
            value = value.removeprefix(" ")
            told[name] = f"{told['data']}\n{value}" if name == "data" and "data" in told else value
        if (retry := told.get("retry", "")).isdigit():
            self._retry_seconds = min(int(retry[:6]) / 1_000, 30.0)
        if "data" not in told:
            return None
        try:
            document = json.loads(told["data"])
        except (ValueError, RecursionError):
            raise UnexpectedAnswerError("an event is no JSON") from None
        if told.get("event") == "progress":
            self._turn = 0
            return document_of(Progress, document)
        version = told.get("id", "")
        if not version.isdigit():
            return None  # of a later release
        step = document_of(StepEvent, document, version=int(version))
        if step.version <= self.last:
            return None
        self.last, self._turn, self.ended = step.version, 0, step.ended
        return step

    def closed(self, retry_after: float | None) -> None:
        """The server closes after ten minutes, when it stops, and where it has no place: then it says for how long."""
        if self.is_late():
            self._wait(0.0)
        elif retry_after is None:
            self._again(self._retry_seconds, "the stream ended early")
        else:
            self._wait(retry_after)

    def lost(self, why: str) -> None:
        self._again(exchange_backoff(self._turn), f"the API was not reached ({why})")

    def refused(self, error: ApiError) -> None:
        seconds = pause_for(error, self._turn)
        if seconds is None or self._turn >= self.retries:
            raise error
        self._again(seconds, "")

    def _again(self, seconds: float, why: str) -> None:
        is_over = self.ended or (self.ends is not None and time.monotonic() >= self.ends)
        if self._turn >= self.retries and not is_over:
            raise ConnectionLostError(why)
        self._turn += 1
        self._wait(seconds)

    def _wait(self, seconds: float) -> None:
        self.pause = seconds if self.ends is None else max(0.0, min(seconds, self.ends - time.monotonic()))


Followed = StepEvent | Progress
