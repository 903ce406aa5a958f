"""What is due is sent, by one publisher at a time; what fails waits, is given up, or holds up no other."""

import threading
import uuid

import pytest
from django.db import OperationalError, connection, connections

from dpp_project.aws import sqs_sender
from dpp_project.aws.sqs_sender import ContentRefused, QueueMessage, SendFailed, SendRefused, Unreachable
from dpp_project.outbox import publisher as publisher_module
from dpp_project.outbox import resending, wakeup
from dpp_project.outbox.models import OutboxMessage
from dpp_project.outbox.publisher import Publisher
from tests.gear.builders import events as gear
from tests.gear.builders.events import EventWorld, effects_table, world
from tests.gear.faults.interruption import beside
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("AUT-05")]
__all__ = ["effects_table", "world"]


class Failing:
    """A sender that answers what it is told for certain bodies, or for all."""

    def __init__(
        self, real: sqs_sender.Sender, failures: dict[str, SendFailed], whole: SendFailed | None = None
    ) -> None:
        self.real, self.failures, self.whole = real, failures, whole
        self.calls = 0

    def send_batch(self, messages: list[QueueMessage]) -> dict[int, SendFailed]:
        self.calls += 1
        if self.whole is not None:
            raise self.whole
        good = [message for message in messages if message.body not in self.failures]
        if good:
            assert self.real.send_batch(good) == {}
        return {at: self.failures[one.body] for at, one in enumerate(messages) if one.body in self.failures}


def through(failing: Failing) -> Publisher:
    return Publisher(sender=lambda: failing)  # type: ignore[arg-type,return-value]


def received(world: EventWorld) -> list[dict[str, str | None]]:
    found: list[dict[str, str | None]] = []
    while some := world.queues.sqs.receive_message(
        QueueUrl=world.queues.runs_url,
        MaxNumberOfMessages=10,
        VisibilityTimeout=60,
        MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["All"],
    ).get("Messages", []):
        found += [
            {
                "body": message["Body"],
                "group": message["Attributes"].get("MessageGroupId"),
                **{name: value["StringValue"] for name, value in message["MessageAttributes"].items()},
            }
            for message in some
        ]
    return found


def test_aut_05_an_event_is_sent_with_its_headers_and_its_tenants_group(world: EventWorld) -> None:
    event = gear.written(gear.an_event("a"))
    assert world.publish() == 1
    assert received(world) == [
        {
            "body": '{"thing":"a"}',
            "group": "t_first",
            "outboxId": str(event.outbox_id),
            "eventType": "thing.happened.v1",
            "aggregateType": "thing",
        }
    ]
    row = gear.row(event)
    assert (row.status, row.processing_owner, row.claimed_at, row.handled_at) == ("PUBLISHED", None, None, None)
    assert row.published_at is not None
    assert row.resend_at is not None
    assert (row.resend_at - row.published_at).total_seconds() == 600
    assert world.publish() == 0


def test_aut_05_a_pass_claims_a_hundred_at_most_oldest_first(world: EventWorld) -> None:
    rows = gear.written_many(130)
    gear.aged(rows[-1], seconds=60)
    publisher = world.publisher()
    assert publisher.publish_once() == 100
    assert gear.row(rows[-1]).status == "PUBLISHED"
    assert (publisher.publish_once(), publisher.publish_once()) == (30, 0)
    assert {row.status for row in OutboxMessage.objects.all()} == {"PUBLISHED"}
    assert len(received(world)) == 130


def test_aut_05_what_is_not_due_stays(world: EventWorld) -> None:
    event = gear.written()
    gear.aged(event, seconds=-30)
    assert (world.publish(), gear.row(event).status) == (0, "PENDING")


@pytest.mark.parametrize("status", ["PROCESSING", "PUBLISHED", "DEAD"])
def test_aut_05_only_what_is_pending_is_claimed(world: EventWorld, status: str) -> None:
    event = gear.written()
    claim = {"status": "PROCESSING", "processing_owner": uuid.uuid4(), "claimed_at": event.created_at}
    OutboxMessage.objects.update(**claim)
    if status != "PROCESSING":
        OutboxMessage.objects.update(
            status=status, processing_owner=None, claimed_at=None, published_at=event.created_at
        )
    assert (world.publish(), gear.row(event).status, world.waiting()) == (0, status, (0, 0))


def test_aut_05_a_row_that_another_publisher_locks_is_left_to_it(world: EventWorld) -> None:
    first, second = gear.written(gear.an_event("a")), gear.written(gear.an_event("b"))
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT 1 FROM outbox_message WHERE outbox_id = %s FOR UPDATE", [first.pk])
        try:
            beside(world.publish)
        finally:
            cursor.execute("ROLLBACK")
    assert (gear.row(first).status, gear.row(second).status) == ("PENDING", "PUBLISHED")


def test_aut_05_a_claim_that_was_taken_over_finalizes_nothing(world: EventWorld) -> None:
    """The first publisher froze after its send; a second one has the row by then."""
    event = gear.written()
    slow, held = world.publisher(), {}

    def overtaken(claim: publisher_module.PublisherClaim, stop: threading.Event) -> None:
        assert not stop.is_set()
        gear.aged(event, seconds=121)
        assert resending.take_over(limit=10) == 1
        OutboxMessage.objects.update(
            status="PROCESSING", processing_owner=(token := uuid.uuid4()), claimed_at=event.created_at
        )
        held["token"] = token
        claim.sent.extend(row.outbox_id for row in claim.rows)

    slow._send = overtaken  # type: ignore[method-assign]
    slow.publish_once()
    row = gear.row(event)
    assert (row.status, row.processing_owner, row.published_at) == ("PROCESSING", held["token"], None)


@pytest.mark.contract("AUT-12")
def test_aut_05_takeover_is_by_elapsed_time_alone(world: EventWorld) -> None:
    young, old = gear.written(gear.an_event("a")), gear.written(gear.an_event("b"))
    publisher = world.publisher()
    publisher._claim()
    gear.aged(old, seconds=121)
    gear.aged(young, seconds=119)
    assert resending.take_over(limit=10) == 1
    assert (gear.row(young).status, gear.row(old).status) == ("PROCESSING", "PENDING")
    assert (gear.row(old).processing_owner, gear.row(old).retry_count) == (None, 0)


REFUSED = ContentRefused("InvalidMessageContents")


def test_aut_05_content_that_the_queue_refuses_is_dead_at_once_and_holds_up_no_other(world: EventWorld) -> None:
    rows = gear.written_many(25)
    assert through(Failing(world.sender(), {'{"thing":"000003"}': REFUSED})).publish_once() == 25
    bad = gear.row(rows[3])
    assert (bad.status, bad.retry_count, bad.last_error) == ("DEAD", 0, "InvalidMessageContents")
    assert {gear.row(row).status for row in rows if row != bad} == {"PUBLISHED"}
    assert len(received(world)) == 24
    assert gear.letters() == [("UNSENDABLE", bad.outbox_id)]


def test_aut_05_messages_that_are_too_long_together_go_alone_and_the_one_too_long_is_dead(world: EventWorld) -> None:
    sizes = {"a": 600_000, "b": 600_000, "c": 1_100_000, "d": 10}
    rows = {thing: gear.written(gear.an_event(thing, payload={"thing": "x" * size})) for thing, size in sizes.items()}
    assert world.publish() == 4
    assert {thing: gear.row(row).status for thing, row in rows.items()} == {
        "a": "PUBLISHED",
        "b": "PUBLISHED",
        "c": "DEAD",
        "d": "PUBLISHED",
    }
    assert gear.letters() == [("UNSENDABLE", rows["c"].outbox_id)]


@pytest.mark.contract("AUT-08")
@pytest.mark.parametrize("failure", [Unreachable("InternalError"), SendRefused("InvalidParameterValue")])
def test_aut_08_another_failed_entry_is_retried_six_times_and_then_dead(world: EventWorld, failure: SendFailed) -> None:
    event, good = gear.written(gear.an_event("bad")), gear.written(gear.an_event("good"))
    publisher = through(Failing(world.sender(), {'{"thing":"bad"}': failure}))
    waits = []
    for count in range(1, 7):
        assert publisher.publish_once() == (2 if count == 1 else 1)
        row = gear.row(event)
        assert (row.status, row.retry_count, row.last_error, row.processing_owner) == (
            "PENDING",
            count,
            str(failure),
            None,
        )
        waits.append(-(-gear.seconds_until(row.next_retry_at) // 10) * 10)
        assert publisher.publish_once() == 0
        gear.aged(event, seconds=601)
        publisher._walk_at = float("-inf")
    assert waits == [10, 60, 600, 600, 600, 600]
    assert publisher.publish_once() == 1
    assert (gear.row(event).status, gear.row(good).status) == ("DEAD", "PUBLISHED")
    assert gear.letters() == [("UNSENDABLE", event.outbox_id)]


@pytest.mark.parametrize("failure", [Unreachable("ConnectionRefusedError"), SendRefused("HTTP 403 AccessDenied")])
def test_aut_05_the_queue_away_counts_no_attempt_and_hands_everything_back(
    world: EventWorld, failure: SendFailed
) -> None:
    rows = gear.written_many(25)
    away = Failing(world.sender(), {}, whole=failure)
    publisher = through(away)
    for _ in range(3):
        with pytest.raises(type(failure)):
            publisher.publish_once()
        publisher._walk_at = float("-inf")
    assert away.calls == 3
    states = {(row.status, row.retry_count, row.processing_owner, row.last_error) for row in map(gear.row, rows)}
    assert states == {("PENDING", 0, None, "")}
    away.whole = None
    assert publisher.publish_once() == 25
    assert {gear.row(row).status for row in rows} == {"PUBLISHED"}


def test_aut_05_what_was_sent_before_the_queue_went_is_published(world: EventWorld) -> None:
    rows = gear.written_many(25)
    failing = Failing(world.sender(), {})
    real = failing.send_batch

    def once(messages: list[QueueMessage]) -> dict[int, SendFailed]:
        if failing.calls == 1:
            failing.whole = Unreachable("TimeoutError")
        return real(messages)

    failing.send_batch = once  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        through(failing).publish_once()
    assert [gear.row(row).status for row in rows] == ["PUBLISHED"] * 10 + ["PENDING"] * 15
    assert len(received(world)) == 10


def test_aut_05_what_the_database_did_not_hear_is_said_once_it_is_back(world: EventWorld) -> None:
    """It goes between send and finalize. Nothing is sent twice for it, and no attempt is counted."""
    rows = gear.written_many(3)
    publisher = world.publisher()
    finalize = publisher._finalize

    def gone(claim: publisher_module.PublisherClaim) -> None:
        publisher._finalize = finalize  # type: ignore[method-assign]
        connections["default"].close()
        raise OperationalError("gone")

    publisher._finalize = gone  # type: ignore[method-assign]
    with pytest.raises(OperationalError):
        publisher.publish_once()
    assert {gear.row(row).status for row in rows} == {"PROCESSING"}
    assert publisher.publish_once() == 0
    assert {(gear.row(row).status, gear.row(row).retry_count) for row in rows} == {("PUBLISHED", 0)}
    assert len(received(world)) == 3


def test_aut_05_a_commit_of_the_same_process_is_sent_at_once_and_the_loop_stops(
    world: EventWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "LOOK_SECONDS", 60.0)
    stop, publisher = threading.Event(), world.publisher()
    thread = threading.Thread(target=publisher.run, args=(stop,))
    thread.start()
    try:
        for thing in "ab":
            event = gear.written(gear.an_event(thing))
            wait_until(lambda event=event: gear.row(event).status == "PUBLISHED")  # type: ignore[misc]
    finally:
        stop.set()
        wakeup.ring_publisher()
        thread.join(10)
    assert not thread.is_alive()


def test_aut_05_an_event_committed_late_is_found_by_the_next_walk(world: EventWorld) -> None:
    """Its time is its transaction's beginning, before what was sent in between."""
    late, publisher = gear.written(gear.an_event("late")), world.publisher()
    gear.aged(late, seconds=-30)
    assert publisher.publish_once() == 0
    gear.aged(late, seconds=90)  # as if it had been committed only now
    assert publisher.publish_once() == 0
    publisher._walk_at -= publisher_module.WALK_SECONDS
    assert publisher.publish_once() == 1


def test_aut_05_a_stop_gives_back_what_is_not_sent(world: EventWorld) -> None:
    rows = gear.written_many(25)
    stop, failing = threading.Event(), Failing(world.sender(), {})
    real = failing.send_batch

    def stopped(messages: list[QueueMessage]) -> dict[int, SendFailed]:
        stop.set()
        return real(messages)

    failing.send_batch = stopped  # type: ignore[method-assign]
    assert through(failing).publish_once(stop) == 25
    assert [gear.row(row).status for row in rows] == ["PUBLISHED"] * 10 + ["PENDING"] * 15
