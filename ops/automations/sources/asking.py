"""One question to a service's HTTP API, and its answer read with suspicion: status, size, time, JSON."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from dpp_project import clock
from dpp_project.outbound.exchanging import OutboundAnswer, OutboundRequest
from dpp_project.outbound.refusals import Refused
from ops.automations.emitting import storable_json
from ops.automations.reach import Outside
from ops.automations.sources.failures import AskFailed, AskFailureKind
from tenants.webhooks.dispatch.schedule import retry_after_seconds

ANSWER_SECONDS: Final = 20.0
ANSWER_BYTES_MAX: Final = 8_388_608
USER_AGENT: Final = "dpp-automations/1"
NOT_MODIFIED: Final = 304
RATE_LIMIT_WAIT_SECONDS: Final = 60.0
"""Where a service says that it is asked too often, and not until when."""
_KINDS: Final = {
    400: AskFailureKind.QUESTION_REFUSED,
    401: AskFailureKind.TOKEN_REFUSED,
    403: AskFailureKind.FORBIDDEN,
    404: AskFailureKind.NOT_FOUND,
    410: AskFailureKind.GONE,
}


@dataclass(frozen=True)
class ServiceAnswer:
    status: int
    content: bytes
    _answer: OutboundAnswer = field(repr=False)

    def header(self, name: str) -> str:
        return self._answer.head.first(name)

    def json(self) -> Any:
        """Raises AskFailed(GARBAGE) for what is no JSON, or holds what Postgres cannot."""
        try:
            return storable_json(
                json.loads(self.content, parse_constant=_refuse_source_json_constant, parse_float=_finite)
            )
        except (ValueError, RecursionError):
            raise AskFailed(AskFailureKind.GARBAGE, "no JSON") from None


@dataclass(frozen=True)
class Asker:
    """Questions to one service, until `until` (by time.monotonic): a slow one cannot keep its caller for longer."""

    outside: Outside
    base_url: str
    headers: Sequence[tuple[str, str]] = field(repr=False)
    """A token among them: they go to the base address and nowhere else."""
    caller: str
    until: float

    def ask(
        self,
        path_or_url: str,
        *,
        method: str = "GET",
        headers: Sequence[tuple[str, str]] = (),
        body: Mapping[str, Any] | None = None,
    ) -> ServiceAnswer:
        """Raises AskFailed for all that is neither 2xx nor 304."""
        url = self._url(path_or_url)
        content = b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
        request = OutboundRequest(
            url=url,
            method=method,
            headers=[
                ("accept", "application/json"),
                ("user-agent", USER_AGENT),
                *([("content-type", "application/json")] if body is not None else []),
                *self.headers,
                *headers,
            ],
            body=content,
            answer_bytes_max=ANSWER_BYTES_MAX,
        )
        seconds = min(ANSWER_SECONDS, self.until - time.monotonic())
        if seconds <= 0:
            raise AskFailed(AskFailureKind.UNREACHABLE, "TIMEOUT")
        try:
            answer = self.outside.ask(request, seconds=seconds, caller=self.caller)
        except Refused as refused:
            raise AskFailed(AskFailureKind.UNREACHABLE, refused.reason.value) from None
        _raise_for(answer)
        return ServiceAnswer(answer.head.status, answer.content, answer)

    def _url(self, path_or_url: str) -> str:
        """A link in an answer is followed to the base address alone: it would be sent the token."""
        base = self.base_url.rstrip("/")
        if path_or_url.startswith("/"):
            return base + path_or_url
        try:
            here, there = urlsplit(base), urlsplit(path_or_url)
        except ValueError:
            raise AskFailed(AskFailureKind.GARBAGE, "a link that is none") from None
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise AskFailed(AskFailureKind.GARBAGE, "a link to another host")
        return path_or_url


def _raise_for(answer: OutboundAnswer) -> None:
    status = answer.head.status
    if 200 <= status < 300 or status == NOT_MODIFIED:
        return
    if wait := _rate_limited(answer):
        raise AskFailed(AskFailureKind.RATE_LIMITED, str(status), retry_after_seconds=wait)
    if status >= 500:
        wait = retry_after_seconds(answer.head.first("retry-after"), now=clock.now())
        raise AskFailed(AskFailureKind.SERVER_ERROR, str(status), retry_after_seconds=wait)
    raise AskFailed(_KINDS.get(status, AskFailureKind.GARBAGE), str(status))


def _rate_limited(answer: OutboundAnswer) -> float:
    """Seconds to wait, 0 where it is no rate limit. GitHub says 403 or 429, the secondary limit with Retry-After."""
    head = answer.head
    if head.status not in {403, 429}:
        return 0.0
    asked = retry_after_seconds(head.first("retry-after"), now=clock.now())
    reset = head.first("x-ratelimit-reset")
    if head.first("x-ratelimit-remaining") == "0" and reset.isascii() and reset.isdigit():
        asked = max(asked, min(float(reset[:12]) - clock.now().timestamp(), 86_400.0))
    if asked > 0 or head.status == 429:
        return asked if asked > 0 else RATE_LIMIT_WAIT_SECONDS
    return 0.0


def _refuse_source_json_constant(constant: str) -> Any:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(digits)
    return number
