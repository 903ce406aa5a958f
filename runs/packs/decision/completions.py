"""The chat completions protocol, as OpenAI wrote it and others speak it: one request, one reply, and how it fails."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dpp_project.outbound.http_exchange import ResponseHead
from dpp_project.outbound.refusals import Failure, Refused
from runs.packs.pack import Outbound

TOKENS_BELIEVED: Final = 10_000_000
_BUSY: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class EngineFailed(Exception):  # noqa: N818  named for what happened
    """No reply. `again_after` are the seconds after which asking again makes sense, None where it never does."""

    def __init__(self, what: str, *, again_after: float | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.again_after = again_after


class FormRefused(Exception):  # noqa: N818  named for what happened
    """The engine does not support an option we sent beside the messages."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


@dataclass(frozen=True, kw_only=True)
class Reply:
    text: str
    was_cut: bool
    """The reply ended at max_tokens."""
    tokens_in: int | None
    tokens_out: int | None
    """None where the engine does not count."""


async def ask_completion(outbound: Outbound, body: Mapping[str, Any], *, seconds: float) -> Reply:
    """Ask once. Raises EngineFailed or FormRefused."""
    try:
        answer = await outbound.ask(json.dumps(body, ensure_ascii=False).encode(), seconds=seconds)
    except Refused as refused:
        if refused.reason is Failure.TIMEOUT:
            raise EngineFailed("did not answer in time", again_after=0.0) from None
        if refused.reason is Failure.TLS_ERROR:
            raise EngineFailed("has no certificate that we trust") from None
        raise EngineFailed("cannot be reached, or broke off", again_after=0.0) from None
    head, content = answer.head, answer.content
    if head.status == 200:
        return _reply(content)
    if head.status in _BUSY:
        raise EngineFailed(f"answered {head.status}", again_after=_retry_after(head))
    if head.status in {400, 404, 415, 422}:
        raise FormRefused(content[:4_000].decode(errors="replace"))
    raise EngineFailed(f"answered {head.status}")


def _retry_after(head: ResponseHead) -> float:
    """Seconds; a date, or nothing, is read as one second."""
    said = head.first("retry-after").strip()
    return float(said) if said.isdecimal() and len(said) < 6 else 1.0


def _reply(content: bytes) -> Reply:
    try:
        document = json.loads(content)
        choice = document["choices"][0]
        text = choice["message"]["content"]
        usage = document.get("usage") or {}
        counts = [_count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens")]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise EngineFailed("answered what is no chat completion", again_after=0.0) from None
    return Reply(
        text=text if isinstance(text, str) else "",
        was_cut=choice.get("finish_reason") == "length",
        tokens_in=counts[0],
        tokens_out=counts[1],
    )


def _count(said: Any) -> int | None:
    """None for a value that cannot be a count: it would be charged."""
    is_count = isinstance(said, int) and not isinstance(said, bool) and 0 <= said <= TOKENS_BELIEVED
    return said if is_count else None
