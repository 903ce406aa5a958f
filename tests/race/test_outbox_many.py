"""Two publishers and eight consumers at once, each message delivered three times: each event has its effect once."""

import threading

import pytest
from django.db import connections

from dpp_project.aws.sqs_sender import QueueMessage
from dpp_project.outbox import messages
from dpp_project.outbox.events import Event, NotRetryable
from dpp_project.outbox.models import OutboxMessage, ProcessedMessage
from tests.gear.builders import events as gear
from tests.gear.builders.events import EventWorld, effects_table, world
from tests.gear.waiting import wait_until
from tests.proving import proofs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("AUT-05", "AUT-06")]
__all__ = ["effects_table", "world"]

PUBLISHERS = 2
CONSUMERS = 8


def everybody_at_it(world: EventWorld, *, until: int) -> None:
    """The loops as the process runs them, each on its thread, until so many events have ended and no message waits.

    A copy whose claim was lost to the one at work stays invisible for the length of a lease: it was received, and what
    becomes of it when it comes again is shown elsewhere.
    """

    def look() -> bool:
        ended = ProcessedMessage.objects.filter(status__in=["DONE", "DEAD"]).count()
        return ended == until and world.waiting()[0] == 0

    stop = threading.Event()
    loops = [*(world.publisher().run for _ in range(PUBLISHERS)), *(world.consumer().run for _ in range(CONSUMERS))]
    threads = [threading.Thread(target=loop, args=(stop,)) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        wait_until(look, seconds=180, pause_seconds=0.1, what="all events end, and their messages are received")
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
        connections.close_all()
    assert not any(thread.is_alive() for thread in threads)


def thrice(world: EventWorld, count: int, *, poison: int = 0) -> None:
    """The queue delivers each message three times, beside what no consumer can read."""
    rows = gear.written_many(count)
    copies = [messages.queue_message_of(row) for row in rows for _ in range(2)]
    copies += [QueueMessage(f"poison {number}") for number in range(poison)]
    for start in range(0, len(copies), 10):
        assert world.sender().send_batch(copies[start : start + 10]) == {}
    everybody_at_it(world, until=2 * count)
    things = [row.aggregate_id for row in rows]
    assert gear.effects() == gear.effects(gear.FOLLOWED.event_type) == things
    assert set(OutboxMessage.objects.values_list("status", flat=True)) == {"PUBLISHED"}
    assert not OutboxMessage.objects.filter(handled_at__isnull=True).exists()
    assert gear.letters() == [("HEADER_MISSING", None)] * poison


def test_aut_06_many_at_once_make_one_effect_of_each(world: EventWorld) -> None:
    thrice(world, 40, poison=5)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_aut_06_a_thousand_events_delivered_three_times_make_a_thousand_effects(world: EventWorld) -> None:
    thrice(world, 1_000)
    proofs.report(cases=1_000)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.contract("AUT-07")
def test_aut_07_poison_beside_a_thousand_good_ones_holds_up_none(world: EventWorld) -> None:
    """A hundred that no consumer can read, and a hundred whose handler refuses them."""
    good, refused = 1_000, 100

    def handle(event: Event) -> None:
        if event.aggregate_id >= f"{good:06}":
            raise NotRetryable("poison")
        gear.enter(event)

    world.handle = handle
    gear.written_many(good + refused)
    for _ in range(10):
        assert world.sender().send_batch([QueueMessage("poison")] * 10) == {}
    everybody_at_it(world, until=good + refused)
    assert gear.effects() == [f"{number:06}" for number in range(good)]
    reasons = [reason for reason, _ in gear.letters()]
    assert (reasons.count("NOT_RETRYABLE"), reasons.count("HEADER_MISSING"), len(reasons)) == (100, 100, 200)
    proofs.report(cases=good + refused)
