"""What failed of ours while a request was authenticated, for the app above that keeps auth errors.

`ops` registers a taker when Django starts; nothing here knows it. A failing request pays a look into a dictionary and,
once in ten seconds for each kind of fault, the text of a traceback. A timer's thread hands over what was noted: one
second after the first, and while the taker fails (the database is often what failed) again after 2 s, doubling to
30 s. At most 64 wait, the oldest first; what comes beside them is counted and dropped. A process that ends loses what
still waits.

Of an exception its classes and places are noted, never its message, which may quote a caller.
"""

import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog
from django.db import connection

from dpp_project import clock
from tenants import metrics
from tenants.last_used import in_background

log = structlog.get_logger("dpp.tenants")

ROOM: Final = 64
SAME_AGAIN_SECONDS: Final = 10.0
KINDS_MAX: Final = 256
FIRST_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 2.0
PAUSE_MAX_SECONDS: Final = 30.0
CHAIN_MAX: Final = 8
FRAMES_MAX: Final = 30
_BECAME: Final = "\nThe above exception was the direct cause of the following exception:\n\n"

FailureKind = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class AuthFailure:
    """`request_id` is made here, so that one that is handed over twice is one."""

    request_id: str
    at: datetime
    http_status: int
    exception_class: str
    stacktrace: str
    path: str
    method: str


FailureTaker = Callable[[Sequence[AuthFailure]], None]


class FailureBuffer:
    """One process's. At most one flush runs or is scheduled; none while nothing fails."""

    def __init__(
        self,
        *,
        run_later: Callable[[float, Callable[[], None]], None] = in_background,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run_later = run_later
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._waiting: deque[AuthFailure] = deque()
        self._noted_at: dict[FailureKind, float] = {}
        self._armed = False
        self._pause = PAUSE_SECONDS
        self._taker: FailureTaker | None = None

    def register(self, taker: FailureTaker) -> None:
        self._taker = taker

    def note(self, error: BaseException, *, http_status: int, path: str, method: str) -> None:
        """Never raises: the request has failed already, and is answered as it is."""
        try:
            self._note(error, http_status=http_status, path=path, method=method)
        except Exception as trouble:  # what it would say of the first fault is in the log already
            log.warning("a failure of authentication was not noted", exc_info=trouble)

    def _note(self, error: BaseException, *, http_status: int, path: str, method: str) -> None:
        if self._taker is None or not self._is_new(_kind_of(error)):
            metrics.AUTH_EXCEPTIONS.labels("sampled").inc()
            return
        failure = AuthFailure(
            request_id=f"platform-{uuid.uuid4()}",
            at=clock.now(),
            http_status=http_status,
            exception_class=_name_of(error),
            stacktrace=stacktrace_of(error),
            path=path,
            method=method,
        )
        with self._lock:
            if len(self._waiting) >= ROOM:
                metrics.AUTH_EXCEPTIONS.labels("dropped").inc()
                return
            self._waiting.append(failure)
            arms, self._armed = not self._armed, True
        metrics.AUTH_EXCEPTIONS.labels("noted").inc()
        if arms:
            self._run_later(FIRST_SECONDS, self._flush_in_thread)

    def _is_new(self, kind: FailureKind) -> bool:
        now = self._monotonic()
        with self._lock:
            last = self._noted_at.get(kind)
            if last is not None and now - last < SAME_AGAIN_SECONDS:
                return False
            if len(self._noted_at) >= KINDS_MAX:
                self._noted_at.clear()
            self._noted_at[kind] = now
        return True

    def _flush_in_thread(self) -> None:
        try:
            self.flush()
        finally:
            connection.close()  # back to the pool: this thread ends here

    def flush(self) -> None:
        """Hand over all that waits, or keep it and come again."""
        with self._lock:
            failures, taker = list(self._waiting), self._taker
        if failures and taker is not None:
            try:
                taker(failures)
            except Exception as error:  # no request waits for it
                log.warning("failures of authentication wait", failures=len(failures), exc_info=error)
                with self._lock:
                    pause, self._pause = self._pause, min(self._pause * 2, PAUSE_MAX_SECONDS)
                self._run_later(pause, self._flush_in_thread)
                return
        with self._lock:
            for _ in failures:
                self._waiting.popleft()
            self._pause, self._armed = PAUSE_SECONDS, bool(self._waiting)
            comes_again = self._armed
        if comes_again:
            self._run_later(FIRST_SECONDS, self._flush_in_thread)

    def forget(self) -> None:
        with self._lock:
            self._waiting.clear()
            self._noted_at.clear()
            self._armed, self._pause = False, PAUSE_SECONDS


def stacktrace_of(error: BaseException) -> str:
    """As Python writes one, the cause first, without a message."""
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and len(chain) < CHAIN_MAX and at not in chain:
        chain.append(at)
        at = at.__cause__ or at.__context__
    parts = []
    for one in reversed(chain):
        frames = "".join(traceback.format_tb(one.__traceback__, limit=-FRAMES_MAX))
        parts.append(f"Traceback (most recent call last):\n{frames}{_name_of(one)}\n")
    return _BECAME.join(parts)


def _name_of(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _kind_of(error: BaseException) -> FailureKind:
    """Its class, and where it was raised."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return (_name_of(error), "", 0) if at is None else (_name_of(error), at.tb_frame.f_code.co_filename, at.tb_lineno)
