"""Ids of traces and spans that every process computes from what it knows of a run."""

import hashlib
import re
from typing import Final
from uuid import UUID

_OWN_BITS: Final = re.compile(r"(?:t_)?([0-9a-f]{32})")


def trace_of(trace_id: str | None) -> int:
    """The 128 bits of our own trace ids and of a `traceparent`, a hash of any other text; 0 without one."""
    if not trace_id:
        return 0
    own = _OWN_BITS.fullmatch(trace_id)
    return (int(own[1], 16) if own else 0) or int.from_bytes(hashlib.sha256(trace_id.encode()).digest()[:16])


def sending_span_of(run_id: UUID) -> int:
    """The id of the span that sent the run's first message."""
    return int.from_bytes(hashlib.sha256(b"run send" + run_id.bytes).digest()[:8])
