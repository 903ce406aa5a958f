"""Reads what lies in the dead-letter queue, which may be anything. Pure: bytes in, a letter out; nothing raises."""

import uuid
from dataclasses import dataclass
from typing import Any, Final

from dpp_project.celery_sqs import celery_message
from dpp_project.celery_sqs.celery_message import NotOurs
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


def parse_message(body: str) -> Letter | None:
    """The letter, or None for poison: anything but exactly a message of ours, under our seal.

    A letter decides over its run (it is sent again once, then refunded), so that a forged one would cancel runs.
    """
    try:
        obeyed = celery_message.read_celery_message(body)
        run_id = uuid.UUID(obeyed.kwargs["run_id"])
    except (NotOurs, ValueError, KeyError, TypeError, AttributeError):
        return None
    kwargs, trace_id = obeyed.kwargs, obeyed.trace_id
    if obeyed.task != TASK or set(kwargs) != KWARGS:
        return None
    if not all(_is_plain(value) for value in kwargs.values()):
        return None
    return Letter(run_id=run_id, task=TASK, trace_id=trace_id if _is_plain(trace_id) else "", kwargs=kwargs)


def _is_plain(value: Any) -> bool:
    """Text that Postgres can hold: a NUL or half a surrogate pair would make the letter impossible to store."""
    return isinstance(value, str) and len(value) <= TEXT_MAX and value.isprintable()
