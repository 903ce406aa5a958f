"""Reads what lies in the dead-letter queue, which may be anything. Pure: bytes in, a letter out; nothing raises."""

import base64
import binascii
import json
import uuid
from dataclasses import dataclass
from typing import Any, Final

from runs.submit.wake_worker import TASK

TEXT_MAX: Final = 256
KWARGS: Final = frozenset({"run_id", "tenant_id", "pack_type", "enqueued_at", "schema_version"})
"""What our message carries (DPP-38): ids and a time, nothing of what a caller sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message that wakes a worker for a run, as it was sent."""

    run_id: uuid.UUID
    task: str
    trace_id: str
    kwargs: dict[str, str]


def read(body: str) -> Letter | None:
    """The letter, or None for poison: anything but exactly a message of ours."""
    try:
        document = json.loads(base64.b64decode(body, validate=True))
        task, trace_id = document["headers"]["task"], document["headers"].get("trace_id")
        arguments, kwargs, _ = json.loads(base64.b64decode(document["body"], validate=True))
        run_id = uuid.UUID(kwargs["run_id"])
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if task != TASK or arguments != [] or set(kwargs) != KWARGS:
        return None
    if not all(_is_plain(value) for value in kwargs.values()):
        return None
    return Letter(run_id=run_id, task=TASK, trace_id=trace_id if _is_plain(trace_id) else "", kwargs=kwargs)


def _is_plain(value: Any) -> bool:
    """Text that Postgres can hold: a NUL or half a surrogate pair would make the letter impossible to store."""
    return isinstance(value, str) and len(value) <= TEXT_MAX and value.isprintable()
