"""One request, repeated where that is safe: written once as plans, which the sync and the async client carry out.

A plan yields what is to be done (`Ask`, `Pause`) and is sent what came of it (`Answer`, `Lost`, None); it does nothing
by itself. So there is one text of what is repeated and when, for both clients.
"""

import json
import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from dpp.errors import ApiError, ConnectionLostError, UnexpectedAnswerError, api_error

RETRIES: Final = 5
RETRY_AFTER_MAX: Final = 120.0
"""An answer that asks for more is handed to the caller, who has more to do than to wait for it."""
BACKOFF_FIRST: Final = 0.25
BACKOFF_MAX: Final = 8.0
_REPEATED: Final = frozenset({429, 502, 503, 504})
IN_PROGRESS: Final = "IDEMPOTENCY_IN_PROGRESS"
"""The one 409 that is repeated: the same key is being handled, as it is while the request that broke off goes on."""


@dataclass(frozen=True)
class Ask:
    """`path` is one of the API's, and the key goes with it; a whole URL is one of the bucket's, and gets no key."""

    method: str
    path: str
    params: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    seconds: float | None = None
    """For the answer, where it takes longer than others."""


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def document(self) -> Any:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise UnexpectedAnswerError("the answer is no JSON: is DPP_API_URL that of DPP?") from None


@dataclass(frozen=True)
class Lost:
    """No whole answer came; `why` names the kind of error, never the request."""

    why: str


T = TypeVar("T")
Plan: TypeAlias = Generator[Ask | Pause, Answer | Lost | None, T]


def exchange_backoff(turn: int) -> float:
    """Doubled each time, and anything from the half of it up: clients that failed at once come back apart."""
    most: float = min(BACKOFF_MAX, BACKOFF_FIRST * 2**turn)
    return most * random.uniform(0.5, 1.0)  # noqa: S311  spread, not secrecy


def pause_for(error: ApiError, turn: int) -> float | None:
    """How long to wait before the same again; None: the same again would be answered the same, or too late."""
    if error.status not in _REPEATED and error.reason_code != IN_PROGRESS:
        return None
    if error.retry_after is None:
        return exchange_backoff(turn)
    if error.retry_after > RETRY_AFTER_MAX:
        return None
    return error.retry_after + exchange_backoff(0)


def plan_exchange(ask: Ask, *, retries: int, key: str | None = None) -> Plan[Answer]:
    """The answer, if it is a good one. Everything that is asked here may be asked twice."""
    turn, may_have_been_heard = 0, False
    while True:
        reply = yield ask
        if isinstance(reply, Answer) and 200 <= reply.status < 300:
            return reply
        if isinstance(reply, Answer):
            error = api_error(reply.status, reply.headers, reply.body, idempotency_key=key)
            seconds = pause_for(error, turn)
            if turn >= retries or seconds is None:
                error.repeated = may_have_been_heard
                raise error
        else:
            why = reply.why if isinstance(reply, Lost) else "nothing"
            if turn >= retries:
                raise ConnectionLostError(f"the API was not reached ({why})", idempotency_key=key)
            seconds = exchange_backoff(turn)
        may_have_been_heard = may_have_been_heard or not isinstance(reply, Answer) or reply.status >= 500
        yield Pause(seconds)
        turn += 1
