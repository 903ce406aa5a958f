"""The chat completions protocol, as OpenAI wrote it and others speak it: one request, one reply, and how it fails."""

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import certifi

from runs.packs.decision.engine import AnswerEngine
from runs.packs.shared.http_exchange import Exchange, ProtocolBroken, ResponseHead

ANSWER_BYTES_MAX: Final = 1_048_576
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


async def complete(engine: AnswerEngine, body: Mapping[str, Any], *, seconds: float) -> Reply:
    """Ask once. Raises EngineFailed or FormRefused."""
    try:
        async with asyncio.timeout(seconds):
            head, content = await _post(engine, json.dumps(body, ensure_ascii=False).encode())
    except TimeoutError:
        raise EngineFailed("did not answer in time", again_after=0.0) from None
    except ssl.SSLError:
        raise EngineFailed("has no certificate that we trust") from None
    except (OSError, ProtocolBroken, UnicodeError):
        raise EngineFailed("cannot be reached, or broke off", again_after=0.0) from None
    if head.status == 200:
        return _reply(content)
    if head.status in _BUSY:
        raise EngineFailed(f"answered {head.status}", again_after=_retry_after(head))
    if head.status in {400, 404, 415, 422}:
        raise FormRefused(content[:4_000].decode(errors="replace"))
    raise EngineFailed(f"answered {head.status}")


async def _post(engine: AnswerEngine, body: bytes) -> tuple[ResponseHead, bytes]:
    place = urlsplit(engine.base_url)
    secure = place.scheme == "https"
    port = place.port or (443 if secure else 80)
    tls = ssl.create_default_context(cafile=certifi.where()) if secure else None
    exchange = Exchange(*await asyncio.open_connection(place.hostname, port, ssl=tls))
    try:
        headers = [
            ("host", place.netloc.rpartition("@")[2]),
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("accept", "application/json"),
            ("connection", "close"),
        ]
        if engine.api_key is not None:
            headers.append(("authorization", f"Bearer {engine.api_key}"))
        head = await exchange.send("POST", f"{place.path}/chat/completions", headers, body)
        content = bytearray()
        async for piece in exchange.pieces():
            content += piece
            if len(content) > ANSWER_BYTES_MAX:
                raise ProtocolBroken("too long")
        return head, bytes(content)
    finally:
        exchange.close()


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
