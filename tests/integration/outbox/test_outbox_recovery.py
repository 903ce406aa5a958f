"""What deaths leave is made up for; what is past its period goes; dead letters are kept and sent again."""

from datetime import timedelta
from typing import Any, cast
from unittest.mock import patch

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import F

from dpp_project import clock
from dpp_project.audit.models import AuditEntry
from dpp_project.aws.sqs_sender import ContentRefused, QueueMessage, Sender, SendFailed
from dpp_project.jobs import registry
from dpp_project.jobs.skipped_rows import SkippedRows
from dpp_project.lifecycle import cleaning
from dpp_project.outbox import dead_queue, ledger, letters, messages, queue, redrive, resending
from dpp_project.outbox.events import Event, NotRetryable
from dpp_project.outbox.models import EventDeadLetter, OutboxMessage, ProcessedMessage
from dpp_project.outbox.publisher import Publisher
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tests.gear.builders import events as gear
from tests.gear.builders.events import EventWorld, effects_table, world

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("AUT-06")]
__all__ = ["effects_table", "world"]

AGED_DAYS = 31


@pytest.fixture(autouse=True)
def _its_queues(world: EventWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "URL", world.queues.runs_url)
    monkeypatch.setattr(queue, "DEAD_LETTERS_URL", world.queues.dlq_url)
    monkeypatch.setattr(queue, "event_sender", world.sender)


def run(name: str, *, limit: int = 10_000) -> tuple[int, int]:
    report = registry.job_named(name).run_once(now=clock.now(), limit=limit)
    return report.seen, report.changed


def died(world: EventWorld, thing: str = "a") -> OutboxMessage:
    """Its handler refused it for good."""

    def refuse(_event: Event) -> None:
        raise NotRetryable("unknown")

    event = gear.written(gear.an_event(thing))
    world.publish()
    world.handle, handle = refuse, world.handle
    world.consume()
    world.handle = handle
    return event


# Resend and takeover


@pytest.mark.contract("AUT-05")
def test_aut_05_claims_of_a_dead_publisher_are_sent_by_the_next(world: EventWorld) -> None:
    rows = gear.written_many(3)
    world.publisher()._claim()
    assert (run("events_overdue"), world.publish()) == ((0, 0), 0)
    for event in rows:
        gear.aged(event, seconds=121)
    preview = registry.job_named("events_overdue").preview
    assert preview is not None
    assert preview(now=clock.now(), limit=100).changed == 3
    assert run("events_overdue") == (3, 3)
    world.until_quiet()
    assert gear.effects() == ["000000", "000001", "000002"]


def test_aut_06_a_resend_comes_after_ten_minutes_and_doubles_to_an_hour(world: EventWorld) -> None:
    event = gear.written()
    world.publish()
    waits = []
    for _ in range(6):
        wait = gear.seconds_until(gear.row(event).resend_at)
        waits.append(round(wait / 60))
        gear.aged(event, seconds=wait - 30)
        assert run("events_overdue") == (0, 0)
        gear.aged(event, seconds=31)
        assert run("events_overdue") == (1, 1)
        assert (run("events_overdue"), gear.row(event).status) == ((0, 0), "PENDING")
        assert world.publish() == 1
    assert waits == [10, 20, 40, 60, 60, 60]


def test_aut_06_a_backlog_of_a_quarter_of_an_hour_is_sent_again_once_and_not_each_pass(world: EventWorld) -> None:
    rows = gear.written_many(150)
    publisher = world.publisher()
    while publisher.publish_once():
        pass
    for event in rows:
        gear.aged(event, seconds=900)
    assert run("events_overdue") == (150, 150)
    publisher._walk_at = float("-inf")
    while publisher.publish_once():
        pass
    for _ in range(30):  # a quarter of an hour of passes
        for event in rows[:3]:
            gear.aged(event, seconds=30)
        assert run("events_overdue") == (0, 0)
    assert sum(world.waiting()) == 300
    while world.consume():
        pass
    assert len(gear.effects()) == 150


@pytest.mark.parametrize("after", [0, 600])
def test_aut_06_an_event_handled_anew_has_its_effect_once_more_when_it_is_due(world: EventWorld, after: int) -> None:
    """The decision RETRY of an auth error: the same event, its ledger row reset."""
    event = gear.written(gear.an_event("a"))
    world.publish()
    world.consume()
    assert resending.handle_anew(event.outbox_id, after_seconds=after)
    assert gear.row(event).handled_at is None
    world.deliver(messages.queue_message_of(event))  # a copy of before comes first
    world.consume()
    assert gear.effects() == (["a"] if after else ["a", "a"])
    gear.aged(event, seconds=after + 1)
    world.deliver(messages.queue_message_of(event))
    world.until_quiet()
    assert gear.effects() == ["a", "a"]


def test_aut_06_an_event_at_work_is_not_handled_anew(world: EventWorld) -> None:
    event = gear.written()
    world.publish()
    gear.claimed_by_another(event)
    before = (OutboxMessage.objects.values().get(), ProcessedMessage.objects.values().get())
    assert not resending.handle_anew(event.outbox_id)
    assert (OutboxMessage.objects.values().get(), ProcessedMessage.objects.values().get()) == before


# Dead letters


@pytest.mark.contract("AUT-07")
def test_aut_07_a_redriven_event_is_handled_and_the_act_is_entered(world: EventWorld) -> None:
    event = died(world)
    letter = EventDeadLetter.objects.get()
    assert redrive.redrive(letter, actor="operator:ada") is None
    world.until_quiet()
    known = gear.ledger_row(event)
    assert known is not None
    assert (known.status, known.retry_count, gear.effects()) == ("DONE", 0, ["a"])
    letter.refresh_from_db()
    assert (letter.redriven_by, letter.redriven_at is not None) == ("operator:ada", True)
    entry = AuditEntry.objects.get()
    assert (entry.act, entry.actor, entry.tenant_id, entry.after) == (
        "event's dead letter sent again",
        "operator:ada",
        "t_first",
        {"redriven_by": "operator:ada", "outbox_id": str(event.outbox_id)},
    )


@pytest.mark.contract("AUT-07")
def test_aut_07_an_event_that_was_handled_is_not_redriven(world: EventWorld) -> None:
    died(world)
    letter = EventDeadLetter.objects.get()
    redrive.redrive(letter, actor="operator:ada")
    world.until_quiet()
    before = (AuditEntry.objects.count(), world.waiting())
    refusal = redrive.redrive(letter, actor="operator:bob")
    assert isinstance(refusal, Refusal)
    assert refusal.detail == "its event is DONE, not DEAD"
    assert (AuditEntry.objects.count(), world.waiting(), gear.effects()) == (*before, ["a"])


@pytest.mark.contract("AUT-07")
def test_aut_07_a_message_without_an_event_is_sent_as_it_came_and_dies_as_a_letter_of_its_own(
    world: EventWorld,
) -> None:
    world.deliver(QueueMessage('{"thing":"\u00e4"}', attributes={"eventType": "thing.happened.v1"}))
    world.consume()
    assert redrive.redrive(EventDeadLetter.objects.get(), actor="operator:ada") is None
    world.consume()
    first, second = EventDeadLetter.objects.order_by("pk")
    assert (bytes(first.body), first.attributes) == (bytes(second.body), second.attributes)
    assert (first.redriven_by, second.redriven_by) == ("operator:ada", "")


@pytest.mark.contract("AUT-07", "AUT-05")
def test_aut_05_an_event_that_the_queue_refused_is_sent_when_it_is_redriven(world: EventWorld) -> None:
    event = gear.written(gear.an_event("a", payload={"thing": "x" * 1_100_000}))
    world.publish()
    assert gear.row(event).status == "DEAD"
    assert redrive.redrive(EventDeadLetter.objects.get(), actor="operator:ada") is None
    assert (gear.row(event).status, getattr(gear.ledger_row(event), "status", "")) == ("PENDING", "PENDING")
    world.publish()
    assert (gear.row(event).status, EventDeadLetter.objects.count()) == ("DEAD", 2)


def given_up(world: EventWorld, message: QueueMessage) -> None:
    """As SQS moves it after a hundred receives."""
    world.queues.sqs.send_message(QueueUrl=world.queues.dlq_url, **message.fields())


def drained(world: EventWorld) -> tuple[int, int]:
    skipped = SkippedRows("events_dead_letters")
    found = dead_queue.drain_dead_queue(world.queues.dlq_url, limit=10, skipped=skipped)
    assert skipped.errors == 0
    return found


@pytest.mark.contract("AUT-07")
def test_aut_07_what_the_queue_gave_up_ends_its_event(world: EventWorld) -> None:
    """A handler that kills its process leaves a row PROCESSING each time."""
    event = gear.written()
    world.publish()
    gear.claimed_by_another(event)
    gear.aged(event, seconds=61)
    given_up(world, messages.queue_message_of(event))
    given_up(world, QueueMessage("nonsense"))
    assert run("events_dead_letters") == (2, 2)
    assert gear.letters() == [("RECEIVED_TOO_OFTEN", event.outbox_id), ("RECEIVED_TOO_OFTEN", None)]
    known = gear.ledger_row(event)
    assert known is not None
    assert (known.status, gear.row(event).handled_at is not None) == ("DEAD", True)
    assert world.queues.counts(world.queues.dlq_url) == (0, 0)
    assert run("events_dead_letters") == (0, 0)


@pytest.mark.contract("AUT-07")
def test_aut_07_a_letter_that_fails_keeps_no_other_in_the_dead_queue(
    world: EventWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for body in ("one", "poison", "two"):
        given_up(world, QueueMessage(body))
    give_up = letters.give_up

    def fails(message: messages.Received, **why: Any) -> None:
        if message.body == "poison":
            raise ValueError(message.body)
        give_up(message, **why)

    monkeypatch.setattr(letters, "give_up", fails)
    report = registry.job_named("events_dead_letters").run_once(now=clock.now(), limit=100)
    assert (report.seen, report.changed, report.errors) == (3, 2, 1)
    assert [*cast("dict[str, str]", report.detail["skipped"]).values()] == ["ValueError"]
    assert {bytes(letter.body) for letter in EventDeadLetter.objects.all()} == {b"one", b"two"}
    assert world.queues.counts(world.queues.dlq_url) == (0, 1)  # a later pass meets it again


@pytest.mark.contract("AUT-07")
def test_aut_07_a_copy_in_the_dead_queue_ends_no_event_that_is_well(world: EventWorld) -> None:
    done, busy, waiting = (gear.written(gear.an_event(thing)) for thing in "abc")
    for event in (done, busy, waiting):
        token = gear.claimed_by_another(event)
        if event == done:
            ledger.done(event.outbox_id, token=token)
        if event == waiting:
            ledger.wait(event.outbox_id, token=token, retry_count=1, delay_seconds=600, error="x")
        given_up(world, messages.queue_message_of(event))
    before = list(ProcessedMessage.objects.values())
    assert drained(world) == (3, 0)
    assert list(ProcessedMessage.objects.values()) == before
    assert sorted(gear.letters()) == sorted(("RECEIVED_TOO_OFTEN", event.outbox_id) for event in (busy, waiting))


@pytest.mark.contract("AUT-07")
def test_aut_07_an_outage_that_outlasts_a_hundred_receives_ends_no_event(world: EventWorld) -> None:
    """Consumers received them again and again, and could claim none: their rows are due, or not there at all."""
    unknown, due = (gear.written(gear.an_event(thing)) for thing in "ab")
    world.publish()
    ledger.wait(due.outbox_id, token=gear.claimed_by_another(due), retry_count=1, delay_seconds=0, error="x")
    world.empty()
    for event in (unknown, due):
        given_up(world, messages.queue_message_of(event))
    assert drained(world) == (2, 0)
    for event in (unknown, due):
        gear.aged(event, seconds=601)
    assert run("events_overdue") == (2, 2)
    world.publish()
    world.consume()
    assert gear.effects() == ["a", "b"]


@pytest.mark.contract("AUT-07")
def test_aut_07_the_command_lists_shows_and_redrives(world: EventWorld, capsys: pytest.CaptureFixture[str]) -> None:
    event = died(world)
    number = EventDeadLetter.objects.get().pk
    call_command("events", "list", "--reason", "NOT_RETRYABLE", "--event", str(event.outbox_id))
    assert f"{number}  " in capsys.readouterr().out
    call_command("events", "list", "--reason", "NOT_JSON")
    assert capsys.readouterr().out == "There are no dead letters.\n"
    call_command("events", "show", str(number))
    assert "detail: unknown" in capsys.readouterr().out
    call_command("events", "redrive", str(number), "--dry-run")
    assert (gear.row(event).status, capsys.readouterr().out) == ("PUBLISHED", f"letter {number} can be sent again\n")
    call_command("events", "redrive", str(number))
    assert (gear.row(event).status, capsys.readouterr().out) == ("PENDING", f"letter {number} was sent again\n")
    for wrong, said in ((["show"], "letter: say which"), (["show", "0"], "there is no letter 0")):
        with pytest.raises(CommandError, match=said):
            call_command("events", *wrong)
    with pytest.raises(CommandError, match="its event is PENDING, not DEAD"):
        call_command("events", "redrive", str(number))


# Retention


def test_aut_06_events_go_thirty_days_after_they_were_handled_and_never_before(world: EventWorld) -> None:
    then = clock.now() - timedelta(days=AGED_DAYS)
    with clock.use_clock(clock.FixedClock(then)):
        old, unhandled, late, refused = (gear.written(gear.an_event(thing)) for thing in "abcd")
    new = gear.written(gear.an_event("e"))
    world.until_quiet()
    aged = OutboxMessage.objects.filter(pk__in=[old.pk, new.pk])
    aged.update(handled_at=F("handled_at") - timedelta(days=AGED_DAYS))
    OutboxMessage.objects.filter(pk=unhandled.pk).update(handled_at=None)
    follow_ups = OutboxMessage.objects.filter(event_type=gear.FOLLOWED.event_type).count()
    OutboxMessage.objects.filter(pk=refused.pk).update(status="PENDING")
    OutboxMessage.objects.filter(pk=refused.pk).update(
        status="PROCESSING", processing_owner=refused.pk, claimed_at=clock.now()
    )
    OutboxMessage.objects.filter(pk=refused.pk).update(status="DEAD", processing_owner=None, claimed_at=None)
    EventDeadLetter.objects.bulk_create(
        EventDeadLetter(letter_key=key, reason="NOT_JSON", body=b"", attributes={}, receives=1) for key in "ab"
    )
    EventDeadLetter.objects.filter(letter_key="a").update(stored_at=then)
    due = [
        cleaning.count_due_rows(now=clock.now(), limit=100, only=kind)[kind]
        for kind in ("event_dead_letters", "events")
    ]
    assert (due, cleaned("event_dead_letters"), cleaned("events")) == ([1, 2], 1, 2)
    left = set(OutboxMessage.objects.filter(event_type=gear.HAPPENED.event_type).values_list("pk", flat=True))
    assert left == {unhandled.pk, late.pk, new.pk}
    known = set(ProcessedMessage.objects.values_list("pk", flat=True))
    assert known & {event.pk for event in (old, unhandled, late, refused, new)} == left
    assert OutboxMessage.objects.filter(event_type=gear.FOLLOWED.event_type).count() == follow_ups == 5
    assert list(EventDeadLetter.objects.values_list("letter_key", flat=True)) == ["b"]
    assert (cleaned("event_dead_letters"), cleaned("events")) == (0, 0)


def cleaned(kind: str) -> int:
    return cleaning.clean_now(now=clock.now(), limit=100, only=kind).changed


@pytest.mark.contract("AUT-07")
def test_aut_07_the_letter_of_an_event_that_was_handled_all_the_same_is_not_sent_again(world: EventWorld) -> None:
    """A message that the queue took was sent once more, and refused: its publisher gave up what a consumer handles."""

    class Refusing:
        def send_batch(self, _messages: object) -> dict[int, SendFailed]:
            raise ContentRefused("as planned")

    event = gear.written(gear.an_event("a"))
    world.publish()
    gear.aged(event, seconds=601)
    assert run("events_overdue") == (1, 1)
    Publisher(sender=lambda: cast("Sender", Refusing())).publish_once()
    world.consume()
    assert (gear.row(event).status, getattr(gear.ledger_row(event), "status", "")) == ("DEAD", "DONE")
    (letter,) = EventDeadLetter.objects.all()
    refused = Refusal(ReasonCode.CONFLICT, "its event is DONE, not DEAD", "letter")
    assert redrive.redrive(letter, actor="operator:ada") == refused
    with patch.object(redrive, "may_redrive", side_effect=[None, redrive.may_redrive(letter)]):  # handled in between
        assert redrive.redrive(letter, actor="operator:ada") == refused
    assert (gear.row(event).status, getattr(gear.ledger_row(event), "status", "")) == ("DEAD", "DONE")
    letter.refresh_from_db()
    assert letter.redriven_at is None
    assert gear.effects() == ["a"]
