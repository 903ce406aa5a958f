"""Events of the tests: written, published, received, aged; a queue of their own, and a table of their effects."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from unittest.mock import patch
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.db.models import F, Model
from django.db.models.functions import Now

from dpp_project import constants
from dpp_project.aws import receipt_handles, sqs_sender
from dpp_project.aws.sqs_sender import QueueMessage, Sender
from dpp_project.outbox import ledger, messages, writing
from dpp_project.outbox.consumer import EventConsumer
from dpp_project.outbox.events import Event, EventDescriptor, Handler, NewEvent
from dpp_project.outbox.models import EventDeadLetter, OutboxMessage, ProcessedMessage
from dpp_project.outbox.publisher import Publisher
from tests.gear.builders.queues import Queues, queues
from tests.gear.faults.interruption import beside

HAPPENED: Final = EventDescriptor(aggregate_type="thing", event_type="thing.happened.v1", key_prefix="thing:happened")
FOLLOWED: Final = EventDescriptor(aggregate_type="thing", event_type="thing.followed.v1", key_prefix="thing:followed")


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
        writing.insert_event(event)
    return OutboxMessage.objects.get(idempotency_key=event.descriptor.key(event.aggregate_id))


def written_many(count: int) -> list[OutboxMessage]:
    with transaction.atomic():
        for number in range(count):
            writing.insert_event(an_event(f"{number:06}"))
    return list(OutboxMessage.objects.order_by("aggregate_id"))


def row(event: OutboxMessage) -> OutboxMessage:
    return OutboxMessage.objects.get(pk=event.pk)


def ledger_row(event: OutboxMessage) -> ProcessedMessage | None:
    return ProcessedMessage.objects.filter(pk=event.pk).first()


def aged(event: OutboxMessage, *, seconds: float) -> None:
    """So much time passes for it, in the outbox and in the ledger."""
    _aged(OutboxMessage, event.pk, seconds, "claimed_at", "next_retry_at", "resend_at", "handled_at", "published_at")
    _aged(ProcessedMessage, event.pk, seconds, "lease_until", "next_retry_at")


def _aged(model: type[Model], key: UUID, seconds: float, *columns: str) -> None:
    model._default_manager.filter(pk=key).update(**{name: F(name) - timedelta(seconds=seconds) for name in columns})


def seconds_until(instant: datetime | None) -> int:
    """By the database's clock, rounded up: what has just been set is whole."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT ceil(extract(epoch FROM %s::timestamptz - now()))", [instant])
        return int(cursor.fetchone()[0])


def letters() -> list[tuple[str, UUID | None]]:
    return [(letter.reason, letter.outbox_id) for letter in EventDeadLetter.objects.order_by("pk")]


# Effects: rows of a handler's own, so that one effect too many is one row too many.


def effects(event_type: str = HAPPENED.event_type) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT thing FROM effects_of_events WHERE event_type = %s ORDER BY thing", [event_type])
        return [thing for (thing,) in cursor.fetchall()]


def enter(event: Event) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO effects_of_events (event_type, thing) VALUES (%s, %s)",
            [event.event_type, event.payload["thing"]],
        )


def enter_and_follow(event: Event) -> None:
    """An effect and a follow-up event, in the consumer's transaction."""
    enter(event)
    writing.insert_event(an_event(event.aggregate_id, descriptor=FOLLOWED, tenant_id=event.tenant_id))


def careless_effect(consumer: EventConsumer, row: OutboxMessage, token: UUID) -> float:
    """A consumer that commits its effect before it says DONE."""
    event = Event(outbox_id=row.pk, aggregate_id=row.aggregate_id, event_type=row.event_type, payload=row.payload)
    consumer._handlers[row.event_type].handle(event)
    assert ledger.done(row.outbox_id, token=token) is not None
    return 0.0


def forget_effects() -> None:
    EventDeadLetter.objects.all().delete()
    ProcessedMessage.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE effects_of_events")


@pytest.fixture
def effects_table(transactional_db: None) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS effects_of_events (event_type text, thing text)")
        cursor.execute("TRUNCATE effects_of_events")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE effects_of_events")


@dataclass
class EventWorld:
    """A queue of its own, publishers and consumers over it, and what handlers do."""

    queues: Queues
    handle: Callable[[Event], None] = enter_and_follow
    handle_followed: Callable[[Event], None] = enter
    senders: list[Sender] = field(default_factory=list)

    def sender(self) -> Sender:
        if not self.senders:
            self.senders.append(sqs_sender.sqs_sender_to(self.queues.runs_url))
        return self.senders[0]

    def publisher(self) -> Publisher:
        return Publisher(sender=self.sender)

    def consumer(self) -> EventConsumer:
        handlers: Mapping[str, Handler] = {
            HAPPENED.event_type: Handler(HAPPENED.event_type, self.handle),
            FOLLOWED.event_type: Handler(FOLLOWED.event_type, self.handle_followed),
        }
        return EventConsumer(url=self.queues.runs_url, sender=self.sender, handlers=handlers, wait_seconds=0)

    def publish(self) -> int:
        return self.publisher().publish_once()

    def consume(self) -> int:
        return self.consumer().consume_once()

    def deliver(self, message: QueueMessage) -> None:
        self.sender().send(message)

    def waiting(self) -> tuple[int, int]:
        """Visible and in flight."""
        return self.queues.counts(self.queues.runs_url)

    def delayed(self) -> int:
        found = self.queues.sqs.get_queue_attributes(
            QueueUrl=self.queues.runs_url, AttributeNames=["ApproximateNumberOfMessagesDelayed"]
        )
        return int(found["Attributes"]["ApproximateNumberOfMessagesDelayed"])

    def until_quiet(self) -> None:
        """Everything that is due is published and consumed."""
        while self.publish() + self.consume():
            pass

    def empty(self) -> None:
        for url in (self.queues.runs_url, self.queues.dlq_url):
            self.queues.sqs.purge_queue(QueueUrl=url)

    def close(self) -> None:
        for sender in self.senders:
            sender.close()


@pytest.fixture
def world(effects_table: None) -> Iterator[EventWorld]:
    with queues(receives=constants.EVENTS_MAX_RECEIVES) as made:
        found = EventWorld(made)
        yield found
        found.close()


def aged_beside(event: OutboxMessage, *, seconds: float) -> None:
    """From inside a handler's transaction: it is another session's time that passes."""
    beside(lambda: aged(event, seconds=seconds))


def holds(answer: object) -> None:
    assert answer


def consumes(world: EventWorld, count: int) -> None:
    assert world.consumer().consume_once() == count


def kept_invisible(world: EventWorld, act: Callable[[], object]) -> list[int]:
    """For how many seconds each message was hidden by hand while `act` ran."""
    seconds: list[int] = []
    keep = receipt_handles.keep_receipts

    def noted(url: str, receipts: Sequence[str], *, seconds: int) -> None:
        found.extend([seconds] * len(receipts))
        keep(url, receipts, seconds=seconds)

    found = seconds
    with patch.object(receipt_handles, "keep_receipts", noted):
        act()
    return seconds


def claimed_by_another(event: OutboxMessage) -> UUID:
    """Another consumer is handling it."""
    token = uuid.uuid4()
    ledger.ensure_row_exists(event.outbox_id)
    assert ledger.claim(event.outbox_id, token=token) == 0
    return token


def a_letter(*, status: str) -> EventDeadLetter:
    """Of an event that has died, or was handled since."""
    event = written()
    token = claimed_by_another(event)
    OutboxMessage.objects.filter(pk=event.pk).update(status="PROCESSING", processing_owner=token, claimed_at=Now())
    OutboxMessage.objects.filter(pk=event.pk).update(
        status="PUBLISHED", processing_owner=None, claimed_at=None, published_at=Now()
    )
    if status == "DEAD":
        assert ledger.dead(event.outbox_id, token=token, error="unknown")
    else:
        assert ledger.done(event.outbox_id, token=token) is not None
    message = messages.queue_message_of(event)
    return EventDeadLetter.objects.create(
        letter_key=uuid.uuid4().hex,
        outbox_id=event.outbox_id,
        tenant_id=event.tenant_id,
        event_type=event.event_type,
        reason="NOT_RETRYABLE",
        detail="unknown",
        body=message.body.encode(),
        attributes=dict(message.attributes),
        receives=1,
    )
