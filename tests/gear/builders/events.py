"""Events of the tests: written, aged, and as their rows stand."""

import uuid
from typing import Any

from django.db import transaction

from dpp_project.outbox import writing
from dpp_project.outbox.events import EventDescriptor, NewEvent
from dpp_project.outbox.models import OutboxMessage

HAPPENED = EventDescriptor(aggregate_type="thing", event_type="thing.happened.v1", key_prefix="thing:happened")
FOLLOWED = EventDescriptor(aggregate_type="thing", event_type="thing.followed.v1", key_prefix="thing:followed")


def an_event(
    thing: str | None = None,
    *,
    descriptor: EventDescriptor = HAPPENED,
    payload: dict[str, Any] | None = None,
    tenant_id: str | None = "t_first",
) -> NewEvent:
    thing = thing or uuid.uuid4().hex
    return NewEvent(descriptor=descriptor, aggregate_id=thing, payload=payload or {"thing": thing}, tenant_id=tenant_id)


def written(event: NewEvent | None = None) -> OutboxMessage:
    event = event or an_event()
    with transaction.atomic():
        writing.insert(event)
    return OutboxMessage.objects.get(idempotency_key=event.descriptor.key(event.aggregate_id))
