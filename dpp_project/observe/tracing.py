"""The trace id: taken from the caller or made, and carried through everything one request sets off."""

import re
import uuid
from collections.abc import Mapping
from contextvars import ContextVar

TRACE_ID_MAX_LENGTH = 64
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._:\-]")
_TRACEPARENT = re.compile(r"^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:$|-)")

_current: ContextVar[str | None] = ContextVar("dpp_trace_id", default=None)


def make_trace_id() -> str:
    return f"t_{uuid.uuid4().hex}"


def sanitise_trace_id(raw: str | None) -> str | None:
    """What may be kept of a caller's trace id: safe characters, bounded length; None if nothing is left."""
    if not raw:
        return None
    return _FORBIDDEN.sub("", raw)[:TRACE_ID_MAX_LENGTH] or None


def from_headers(headers: Mapping[str, str]) -> str | None:
    """`X-Trace-Id` first, then the trace id inside a valid W3C `traceparent`."""
    if (own := sanitise_trace_id(headers.get("X-Trace-Id"))) is not None:
        return own
    parent = _traceparent(headers)
    return None if parent is None else parent[1]


def parent_span(headers: Mapping[str, str], trace_id: str) -> int:
    """The span of the caller's that a request in this trace is part of; 0 where it names none."""
    parent = _traceparent(headers)
    return int(parent[2], 16) if parent is not None and parent[1] == trace_id else 0


def _traceparent(headers: Mapping[str, str]) -> re.Match[str] | None:
    parent = _TRACEPARENT.match(headers.get("traceparent", "").strip().lower())
    return None if parent is None or parent[1] == "0" * 32 else parent


def bind_trace_id(trace_id: str | None) -> None:
    _current.set(trace_id)


def current_trace_id() -> str | None:
    return _current.get()
