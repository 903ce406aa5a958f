"""Events come in: each once, however often, by however many pollers, it is found.

`emit_event` writes event, seen row and cursor in one transaction, so a poller that dies has either all three or none,
and looks again from the cursor before. The seen row decides: INSERT … ON CONFLICT DO NOTHING, and of two at once the
second waits for the first and finds it. It stays 30 days, the event 7 after it ended.
"""

import enum
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from dpp_project import uuid7
from dpp_project.audit import trail
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from ops.automations.models import AutomationEvent, AutomationSource, SeenEvent
from ops.automations.states import FAILED_AGAIN, EventStatus

PAYLOAD_BYTES_MAX: Final = 1_048_576
EVENT_ID_LENGTH_MAX: Final = 512
TEXT_LENGTH_MAX: Final = 500
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""As JSON escapes it. Behind a backslash that is escaped itself it is six characters that someone wrote."""

_SEEN: Final = """
INSERT INTO seen_event (source_id, event_id) VALUES (%s, %s) ON CONFLICT (source_id, event_id) DO NOTHING RETURNING 1
"""


class Emission(enum.Enum):
    NEW = "new"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class Emitted:
    emission: Emission
    event_pk: uuid.UUID | None = None
    """Of the event that is new."""


def emit_event(
    *,
    source: AutomationSource,
    event_id: str,
    payload: Mapping[str, Any],
    occurred_at: datetime,
    cursor: str | None = None,
    thread: str = "",
    actor: str = "",
    resumes: uuid.UUID | None = None,
) -> Emitted | Refusal:
    """A new event, or the finding that it was seen. Key: (source, event_id). The cursor moves in either case.

    `thread` is what it belongs to at its source (an issue, a pull request), `actor` who made it: by the one a loop is
    broken, by the other our own doing is left out. `resumes` is the task that an answer was given to.

    A Refusal names what cannot be stored; nothing is changed by it, the cursor included: the caller decides whether to
    go past it.
    """
    fault = _emitted_event_fault(event_id, payload, occurred_at, thread=thread, actor=actor)
    if fault is not None:
        return fault
    with transaction.atomic():
        emitted = _noted(source, event_id)
        if emitted is None:
            made = AutomationEvent.objects.create(
                event_pk=uuid7.new_uuid7(),
                source=source,
                event_id=event_id,
                payload=dict(payload),
                thread=thread,
                actor=actor,
                occurred_at=occurred_at,
                resumes_id=resumes,
            )
            emitted = Emitted(Emission.NEW, made.pk)
        if cursor is not None:
            AutomationSource.objects.filter(pk=source.pk).exclude(cursor=cursor).update(
                cursor=cursor, version=F("version") + 1
            )
    return emitted


def _noted(source: AutomationSource, event_id: str) -> Emitted | None:
    with connection.cursor() as cursor:
        cursor.execute(_SEEN, [source.pk, event_id])
        is_new = cursor.fetchone() is not None
    return None if is_new else Emitted(Emission.DUPLICATE)


def is_duplicate(*, source: AutomationSource, event_id: str) -> bool:
    """Whether it stands in the active queue or was seen; what is completed is not. A hint: `emit_event` decides."""
    mine = {"source": source, "event_id": event_id}
    return (
        SeenEvent.objects.filter(**mine).exists()
        or AutomationEvent.objects.filter(**mine).exclude(status=EventStatus.COMPLETED).exists()
    )


def emit_again(*, event_pk: uuid.UUID, actor: str, reason: str = "") -> AutomationEvent | Refusal:
    """A person has an event that failed made into a task once more, as long as the event itself is still there."""
    with transaction.atomic():
        event = AutomationEvent.objects.select_for_update(no_key=True).filter(pk=event_pk).first()
        if event is None:
            return Refusal(ReasonCode.NOT_FOUND, "there is no such event; it may have been cleared", "event")
        if event.outcome not in FAILED_AGAIN:
            return Refusal(ReasonCode.CONFLICT, "only an event that failed is emitted again", "event")
        seen, _ = SeenEvent.objects.get_or_create(source_id=event.source_id, event_id=event.event_id)
        moved = SeenEvent.objects.filter(pk=seen.pk, emissions=event.emission).update(
            outcome=None, emissions=event.emission + 1, at=Now()
        )
        if not moved:
            return Refusal(ReasonCode.CONFLICT, "it was emitted again already", "event")
        again = AutomationEvent.objects.create(
            event_pk=uuid7.new_uuid7(),
            source_id=event.source_id,
            event_id=event.event_id,
            emission=event.emission + 1,
            payload=event.payload,
            thread=event.thread,
            actor=event.actor,
            occurred_at=event.occurred_at,
            resumes_id=event.resumes_id,
        )
        trail.record_in_trail(
            "automation event emitted again",
            actor=actor,
            subject=f"event {event.pk}",
            after={"event": str(again.pk), "emission": again.emission},
            reason=reason,
        )
    return again


def forget_failed(*, source: AutomationSource, event_id: str, actor: str, reason: str = "") -> Refusal | None:
    """A failed event that was cleared may come again from its source; while it is kept, there is `emit_again`."""
    with transaction.atomic():
        mine = {"source": source, "event_id": event_id}
        seen = SeenEvent.objects.select_for_update().filter(**mine).first()
        if seen is None:
            return Refusal(ReasonCode.NOT_FOUND, "no such event was seen", "event_id")
        if seen.outcome not in FAILED_AGAIN:
            return Refusal(ReasonCode.CONFLICT, "only an event that failed is forgotten", "event_id")
        if AutomationEvent.objects.filter(**mine).exists():
            return Refusal(ReasonCode.CONFLICT, "it is still kept; emit it again instead", "event_id")
        seen.delete()
        subject = f"event {event_id} of {source.name}"
        trail.record_in_trail("automation event forgotten", actor=actor, subject=subject, after={}, reason=reason)
    return None


def storable_json(node: Any) -> Any:
    """Without what jsonb cannot hold: NUL and lone surrogates become U+FFFD, in names as in texts."""
    if isinstance(node, str):
        return _UNSTORABLE.sub("\ufffd", node)
    if isinstance(node, dict):
        return {_UNSTORABLE.sub("\ufffd", name): storable_json(value) for name, value in node.items()}
    if isinstance(node, list):
        return [storable_json(value) for value in node]
    return node


def _emitted_event_fault(
    event_id: str, payload: Mapping[str, Any], occurred_at: datetime, *, thread: str, actor: str
) -> Refusal | None:
    if not 1 <= len(event_id) <= EVENT_ID_LENGTH_MAX or not event_id.isprintable():
        return invalid("event_id", f"must be 1 to {EVENT_ID_LENGTH_MAX} printable characters")
    for field, text in (("thread", thread), ("actor", actor)):
        if len(text) > TEXT_LENGTH_MAX or not (text == "" or text.isprintable()):
            return invalid(field, f"must be at most {TEXT_LENGTH_MAX} printable characters")
    if occurred_at.tzinfo is None:
        return invalid("occurred_at", "must have an offset")
    return _payload_fault(payload)


def _payload_fault(payload: Mapping[str, Any]) -> Refusal | None:
    try:
        written = json.dumps(payload, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):
        return invalid("payload", "must be JSON")
    if len(written) > PAYLOAD_BYTES_MAX:
        return invalid("payload", f"is larger than {PAYLOAD_BYTES_MAX} bytes")
    if _NUL.search(written) is not None:
        return invalid("payload", "holds U+0000, which cannot be stored; leave it out")
    return None
