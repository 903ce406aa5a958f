"""Each event has its effect once, however often it is delivered and whoever else is at it."""

import json
import uuid
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection, connections

from dpp_project.aws.sqs_sender import QueueMessage, Unreachable
from dpp_project.outbox import consumer as consumer_module
from dpp_project.outbox import ledger, letters, messages, resending
from dpp_project.outbox.events import Event, EventDescriptor, NotRetryable
from dpp_project.outbox.models import EventDeadLetter, OutboxMessage, ProcessedMessage
from tests.gear.builders import events as gear
from tests.gear.builders.events import EventWorld, effects_table, world
from tests.gear.builders.recovery import at_once
from tests.gear.faults.interruption import beside

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("AUT-06")]
__all__ = ["effects_table", "world"]


def delivered(world: EventWorld, thing: str = "a") -> OutboxMessage:
    event = gear.written(gear.an_event(thing))
    assert world.publish() == 1
    return event


def standing(event: OutboxMessage) -> tuple[str, int, str]:
    found = gear.ledger_row(event)
    assert found is not None
    return found.status, found.retry_count, found.last_error


def fails(error: type[Exception], *arguments: str) -> Callable[[Event], None]:
    def handle(event: Event) -> None:
        gear.enter(event)
        raise error(*arguments)

    return handle


def test_aut_06_an_event_is_handled_with_its_follow_up_and_deleted(world: EventWorld) -> None:
    event = delivered(world)
    assert world.consume() == 1
    assert (gear.effects(), standing(event), world.waiting()) == (["a"], ("DONE", 0, ""), (0, 0))
    assert gear.row(event).handled_at is not None
    follow = OutboxMessage.objects.get(idempotency_key="thing:followed:a")
    assert (follow.status, follow.payload, follow.tenant_id) == ("PENDING", {"thing": "a"}, "t_first")
    world.until_quiet()
    assert gear.effects(gear.FOLLOWED.event_type) == ["a"]


def test_aut_06_the_handler_gets_what_was_written(world: EventWorld) -> None:
    got: list[Event] = []
    world.handle = got.append
    event = delivered(world)
    world.consume()
    assert got == [
        Event(
            outbox_id=event.outbox_id,
            aggregate_id="a",
            event_type="thing.happened.v1",
            payload={"thing": "a"},
            tenant_id="t_first",
        )
    ]


@pytest.mark.contract("AUT-12")
def test_aut_06_a_message_that_comes_again_is_deleted_without_effect(world: EventWorld) -> None:
    event = delivered(world)
    for _ in range(2):
        world.deliver(messages.queue_message_of(event))
    while world.consume():
        pass
    assert (gear.effects(), world.waiting(), ProcessedMessage.objects.count()) == (["a"], (0, 0), 1)


def test_aut_06_eight_consumers_on_one_message_do_its_effect_once(world: EventWorld) -> None:
    event = delivered(world)
    for _ in range(7):
        world.deliver(messages.queue_message_of(event))
    at_once(*[lambda: world.consumer().consume_once()] * 8)
    assert gear.effects() == ["a"]
    assert standing(event) == ("DONE", 0, "")


def test_aut_06_who_loses_a_claim_leaves_the_message_until_the_lease_is_over(world: EventWorld) -> None:
    event = delivered(world)
    token = gear.claimed_by_another(event)
    (seconds,) = gear.kept_invisible(world, world.consume)
    assert 50 < seconds <= 61
    assert (gear.effects(), world.waiting(), standing(event)) == ([], (0, 1), ("PROCESSING", 0, ""))
    row = gear.ledger_row(event)
    assert row is not None
    assert row.lease_owner == token


@pytest.mark.parametrize(("status", "is_deleted"), [("DONE", True), ("DEAD", True), ("RETRY_WAIT", False)])
def test_aut_06_a_loser_deletes_the_message_for_done_and_dead_alone(
    world: EventWorld, status: str, *, is_deleted: bool
) -> None:
    event = delivered(world)
    token = gear.claimed_by_another(event)
    if status == "DONE":
        assert ledger.done(event.outbox_id, token=token) is not None
    elif status == "DEAD":
        assert ledger.dead(event.outbox_id, token=token, error="x")
    else:
        assert ledger.wait(event.outbox_id, token=token, retry_count=1, delay_seconds=10, error="x")
    world.consume()
    assert (gear.effects(), world.waiting()) == ([], (0, 0) if is_deleted else (0, 1))


@pytest.mark.contract("AUT-12")
def test_aut_06_a_lease_that_is_over_is_taken_and_the_first_consumer_rolls_back(world: EventWorld) -> None:
    """It froze in the middle of its handler; the second did the work meanwhile."""
    event = delivered(world)

    def overtaken(happened: Event) -> None:
        world.handle = gear.enter_and_follow
        gear.aged_beside(event, seconds=61)
        world.deliver(messages.queue_message_of(event))
        beside(lambda: world.consumer().consume_once())
        gear.enter_and_follow(happened)

    world.handle = overtaken
    world.consume()
    assert (gear.effects(), standing(event)) == (["a"], ("DONE", 0, ""))
    assert OutboxMessage.objects.filter(event_type=gear.FOLLOWED.event_type).count() == 1
    assert gear.letters() == []


def test_aut_06_a_long_handler_keeps_its_lease(world: EventWorld) -> None:
    event, consumer = delivered(world), None

    def slow(happened: Event) -> None:
        gear.aged_beside(event, seconds=50)
        beside(lambda: gear.holds(consumer._keeper.renew()))  # type: ignore[attr-defined]
        gear.aged_beside(event, seconds=50)
        world.deliver(messages.queue_message_of(event))
        beside(lambda: gear.consumes(world, 1))
        gear.enter(happened)

    world.handle = slow
    consumer = world.consumer()
    assert consumer.consume_once() == 1
    assert (gear.effects(), standing(event)) == (["a"], ("DONE", 0, ""))
    assert not consumer._keeper.renew()


def test_aut_06_a_handler_that_hangs_is_renewed_no_more(world: EventWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpp_project.outbox.keeping.HANDLING_SECONDS_MAX", 0)
    consumer, renewed = None, []
    world.handle = lambda _event: renewed.append(consumer._keeper.renew())  # type: ignore[attr-defined]
    delivered(world)
    consumer = world.consumer()
    consumer.consume_once()
    assert renewed == [False]


def test_aut_06_a_row_whose_message_is_gone_is_handled_by_the_resend(world: EventWorld) -> None:
    """Its consumer was killed after the claim, and the queue lost the message."""
    event = delivered(world)
    gear.claimed_by_another(event)
    world.queues.sqs.purge_queue(QueueUrl=world.queues.runs_url)
    gear.aged(event, seconds=599)
    assert resending.send_overdue(limit=10) == 0
    gear.aged(event, seconds=2)
    assert resending.send_overdue(limit=10) == 1
    world.until_quiet()
    assert (gear.effects(), standing(event)) == (["a"], ("DONE", 0, ""))


def test_aut_06_a_row_that_was_handled_is_never_resent(world: EventWorld) -> None:
    event = delivered(world)
    world.until_quiet()
    gear.aged(event, seconds=100_000)
    assert resending.send_overdue(limit=10) == 0
    assert gear.row(event).status == "PUBLISHED"


# Failures


@pytest.mark.contract("AUT-08")
def test_aut_08_a_failure_is_retried_on_the_ladder_by_the_rows_time_alone(world: EventWorld) -> None:
    event = delivered(world)
    world.handle = fails(ValueError, "something secret")
    for count, delay in enumerate((10, 60, 600, 600, 600, 600), start=1):
        assert world.consume() == 1
        row = gear.ledger_row(event)
        assert row is not None
        assert (row.status, row.retry_count, row.last_error, row.lease_owner) == (
            "RETRY_WAIT",
            count,
            "ValueError",
            None,
        )
        assert delay - 5 < gear.seconds_until(row.next_retry_at) <= delay
        assert (gear.effects(), world.waiting(), world.delayed()) == ([], (0, 0), 1)
        # The new message comes early: whatever the queue does, the row decides.
        world.queues.sqs.purge_queue(QueueUrl=world.queues.runs_url)
        world.deliver(messages.queue_message_of(event))
        (seconds,) = gear.kept_invisible(world, world.consume)
        assert gear.seconds_until(row.next_retry_at) < seconds <= delay + 1
        assert standing(event) == ("RETRY_WAIT", count, "ValueError")
        gear.aged(event, seconds=601)
        world.queues.sqs.purge_queue(QueueUrl=world.queues.runs_url)
        world.deliver(messages.queue_message_of(event))
    assert world.consume() == 1
    assert (standing(event), world.waiting(), world.delayed()) == (("DEAD", 6, "ValueError"), (0, 0), 0)
    assert gear.letters() == [("RETRIES_EXCEEDED", event.outbox_id)]
    assert gear.row(event).handled_at is not None
    assert gear.effects() == []


@pytest.mark.contract("AUT-08")
def test_aut_08_a_ladder_whose_queue_is_away_waits_in_its_old_message(
    world: EventWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = delivered(world)
    world.handle = fails(ValueError)

    def away(_message: QueueMessage) -> None:
        raise Unreachable("gone")

    monkeypatch.setattr(world.sender(), "send", away)
    assert gear.kept_invisible(world, world.consume) == [11]
    assert (standing(event), world.waiting(), world.delayed()) == (("RETRY_WAIT", 1, "ValueError"), (0, 1), 0)


@pytest.mark.contract("AUT-08")
def test_aut_08_an_event_that_recovers_is_handled_once(world: EventWorld) -> None:
    event = delivered(world)
    world.handle = fails(ValueError)
    world.consume()
    world.handle = gear.enter
    gear.aged(event, seconds=11)
    world.deliver(messages.queue_message_of(event))
    world.consume()
    assert (gear.effects(), standing(event)) == (["a"], ("DONE", 1, ""))


def test_aut_08_an_event_that_no_app_handles_is_retried(world: EventWorld) -> None:
    event = gear.written(
        gear.an_event("a", descriptor=EventDescriptor(aggregate_type="thing", event_type="new.v2", key_prefix="n"))
    )
    world.publish()
    world.consume()
    assert standing(event) == ("RETRY_WAIT", 1, "NoHandler")


@pytest.mark.contract("AUT-07")
def test_aut_07_what_is_not_retryable_is_a_dead_letter_at_once(world: EventWorld) -> None:
    event = delivered(world)
    world.handle = fails(NotRetryable, "auth error unknown")
    world.consume()
    assert (gear.effects(), standing(event), world.waiting()) == ([], ("DEAD", 0, "auth error unknown"), (0, 0))
    letter = EventDeadLetter.objects.get()
    assert (letter.reason, letter.detail, letter.outbox_id) == ("NOT_RETRYABLE", "auth error unknown", event.outbox_id)
    assert (bytes(letter.body), letter.tenant_id, letter.event_type, letter.receives) == (
        b'{"thing":"a"}',
        "t_first",
        "thing.happened.v1",
        1,
    )
    assert letter.attributes == dict(messages.queue_message_of(event).attributes)
    assert letter.sent_at is not None


ID = "01970000-0000-7000-8000-000000000000"
HEADERS = {"outboxId": ID, "eventType": "thing.happened.v1", "aggregateType": "thing"}


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in HEADERS.items() if key != name}


@pytest.mark.contract("AUT-07")
@pytest.mark.parametrize(
    ("body", "attributes", "reason", "detail"),
    [
        ("{}", {}, "HEADER_MISSING", "without outboxId, eventType, aggregateType"),
        ("{}", without("outboxId"), "HEADER_MISSING", "without outboxId"),
        ("{}", without("eventType"), "HEADER_MISSING", "without eventType"),
        ("{}", without("aggregateType"), "HEADER_MISSING", "without aggregateType"),
        ("{}", HEADERS | {"outboxId": "7"}, "HEADER_MISSING", "outboxId is no id"),
        ("{", HEADERS, "NOT_JSON", "the body is no JSON"),
        ("[" * 100_000, HEADERS, "NOT_JSON", "the body is no JSON"),
        ("[]", HEADERS, "NOT_JSON", "the body is no JSON object"),
        ("{}", HEADERS, "UNKNOWN_EVENT", "the outbox has no such event"),
    ],
)
def test_aut_07_a_malformed_message_is_a_dead_letter_at_once(
    world: EventWorld, body: str, attributes: dict[str, str], reason: str, detail: str
) -> None:
    world.deliver(QueueMessage(body, attributes=attributes))
    assert world.consume() == 1
    letter = EventDeadLetter.objects.get()
    assert (letter.reason, letter.detail, bytes(letter.body).decode(), letter.attributes, letter.receives) == (
        reason,
        detail,
        body,
        attributes,
        1,
    )
    assert (world.waiting(), ProcessedMessage.objects.count(), gear.effects()) == ((0, 0), 0, [])


@pytest.mark.contract("AUT-07")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"body": "nonsense"}, "NOT_JSON"),
        ({"body": '{"thing":"b"}'}, "NOT_AS_WRITTEN"),
        ({"eventType": "thing.followed.v1"}, "NOT_AS_WRITTEN"),
        ({"aggregateType": "other"}, "NOT_AS_WRITTEN"),
        ({"aggregateType": ""}, "HEADER_MISSING"),
    ],
)
def test_aut_07_a_malformed_message_of_a_known_event_ends_its_row(
    world: EventWorld, change: dict[str, str], reason: str
) -> None:
    event = gear.written(gear.an_event("a"))
    good = messages.queue_message_of(event)
    attributes = {name: value for name, value in (dict(good.attributes) | change).items() if value and name != "body"}
    world.deliver(QueueMessage(change.get("body", good.body), attributes=attributes))
    world.consume()
    assert gear.letters() == [(reason, event.outbox_id)]
    assert (standing(event)[:2], gear.effects(), world.waiting()) == (("DEAD", 0), [], (0, 0))


@pytest.mark.contract("AUT-07")
def test_aut_07_a_malformed_copy_leaves_an_event_that_is_done_or_at_work_alone(world: EventWorld) -> None:
    done, busy = delivered(world, "a"), gear.written(gear.an_event("b"))
    world.consume()
    gear.claimed_by_another(busy)
    for event in (done, busy):
        world.deliver(QueueMessage("nonsense", attributes=messages.queue_message_of(event).attributes))
    while world.consume():
        pass
    assert sorted(gear.letters()) == sorted([("NOT_JSON", done.outbox_id), ("NOT_JSON", busy.outbox_id)])
    assert (standing(done), standing(busy)) == (("DONE", 0, ""), ("PROCESSING", 0, ""))


@pytest.mark.contract("AUT-07")
def test_aut_07_a_lease_lost_before_the_letter_leaves_none(world: EventWorld) -> None:
    """Another consumer has handled the event by then: what the first one found does not count."""
    event = delivered(world)

    def overtaken(_event: Event) -> None:
        world.handle = gear.enter
        gear.aged_beside(event, seconds=61)
        world.deliver(messages.queue_message_of(event))
        beside(lambda: gear.consumes(world, 1))
        raise NotRetryable("unknown")

    world.handle = overtaken
    world.consume()
    assert (gear.letters(), standing(event), gear.effects(), world.waiting()) == ([], ("DONE", 0, ""), ["a"], (0, 0))


@pytest.mark.contract("AUT-07")
def test_aut_07_a_lease_lost_before_a_malformed_messages_letter_leaves_the_message(
    world: EventWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    event, give_up = gear.written(gear.an_event("a")), letters.give_up

    def late(*arguments: Any, **options: Any) -> None:
        gear.aged(event, seconds=61)
        gear.claimed_by_another(event)
        give_up(*arguments, **options)

    monkeypatch.setattr(letters, "give_up", late)
    world.deliver(QueueMessage("nonsense", attributes=messages.queue_message_of(event).attributes))
    assert world.consume() == 1
    assert (gear.letters(), standing(event), world.waiting()) == ([], ("PROCESSING", 0, ""), (0, 1))


@pytest.mark.contract("AUT-07")
def test_aut_07_a_letter_is_stored_once_however_often_its_message_comes(world: EventWorld) -> None:
    """The consumer dies between the letter and the delete."""
    world.deliver(QueueMessage("{}"))
    consumer = world.consumer()
    (message,) = consumer._received()
    assert consumer._see_to(message)
    assert consumer._see_to(message)
    assert EventDeadLetter.objects.count() == 1


def test_aut_07_poison_beside_good_ones_holds_up_none(world: EventWorld) -> None:
    gear.written_many(40)
    world.publish()
    for number in range(20):
        world.deliver(QueueMessage(json.dumps([number]), attributes={"outboxId": str(uuid.uuid4())}))
    while world.consume():
        pass
    assert (len(gear.effects()), EventDeadLetter.objects.count(), world.waiting()) == (40, 20, (0, 0))


# What is away


def test_aut_06_without_a_database_nothing_is_received(world: EventWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    delivered(world)
    consumer = world.consumer()

    def gone(*_arguments: object) -> None:
        raise OperationalError("gone")

    with connection.execute_wrapper(gone), pytest.raises(OperationalError):
        consumer.consume_once()
    (message,) = consumer._received()
    assert message.receives == 1


@pytest.mark.parametrize("moment", ["in the handler", "at done"])
def test_aut_06_a_database_that_goes_counts_no_attempt(
    world: EventWorld, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = delivered(world)
    done = ledger.done

    def cut() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    def cut_first(outbox_id: UUID, *, token: UUID) -> float | None:
        monkeypatch.setattr(ledger, "done", done)
        cut()
        return done(outbox_id, token=token)

    def handle(happened: Event) -> None:
        gear.enter(happened)
        if moment == "in the handler":
            cut()

    if moment == "at done":
        monkeypatch.setattr(ledger, "done", cut_first)
    world.handle = handle
    assert gear.kept_invisible(world, world.consume) == [1]
    assert (gear.effects(), standing(event)) == ([], ("PENDING", 0, ""))
    world.handle = gear.enter
    world.deliver(messages.queue_message_of(event))
    world.consume()
    assert (gear.effects(), standing(event)) == (["a"], ("DONE", 0, ""))


def test_aut_06_a_statement_that_fails_by_itself_is_a_failure_of_the_handler(world: EventWorld) -> None:
    """A lock that was not given is an OperationalError too, and the connection stands."""
    event = delivered(world)

    def locked(_event: Event) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 1")
            cursor.execute("SELECT pg_sleep(5)")

    world.handle = locked
    world.consume()
    assert standing(event) == ("RETRY_WAIT", 1, "OperationalError")


def test_aut_06_a_slow_event_gives_those_behind_it_back(world: EventWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_module, "TURN_SECONDS", 0)
    gear.written_many(3)
    world.publish()
    assert world.consume() == 3
    assert (gear.effects(), world.waiting()) == ([], (3, 0))
