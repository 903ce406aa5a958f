"""What an app says of its events: how they are named, who handles them, and what else runs in the process `events`.

`dpp_project.outbox.events` gives all of it to the apps.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDescriptor:
    """One kind of event. Its key comes from the aggregate's id alone: one event of a kind for each aggregate."""

    aggregate_type: str
    event_type: str
    key_prefix: str

    def key(self, aggregate_id: object) -> str:
        return f"{self.key_prefix}:{aggregate_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event to be written. Of its payload only JSON, and never a secret: it lies in the queue as it is."""

    descriptor: EventDescriptor
    aggregate_id: str
    payload: Mapping[str, object]
    tenant_id: str | None = None
    """Messages of one tenant do not delay those of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event as its handler gets it: from its row, whatever the queue delivered."""

    outbox_id: UUID
    aggregate_id: str
    event_type: str
    payload: Mapping[str, Any]
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True)
class Handler:
    """`handle` runs inside the consumer's one transaction, and must reach the database alone.

    What it raises rolls everything back and is retried; NotRetryable makes a dead letter at once.
    """

    event_type: str
    handle: Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Loop:
    """Something that runs in the process `events` until the event is set, in a thread of its own."""

    name: str
    run: Callable[[threading.Event], None]


class NotRetryable(Exception):  # noqa: N818  an outcome
    """This event can never be handled: it becomes a dead letter at once, with this text as its reason."""
