"""Publisher, consumer and what repairs them killed or cut at every request they send: each event has its effect once.

The real code in a process of its own, against the real services, as in test_reaper_cutpoints. Afterwards time passes:
leases end, claims are taken over, what was not heard of is sent again; and each message comes twice more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from dpp_project import clock
from dpp_project.aws import clients
from dpp_project.outbox import jobs, ledger, messages, queue, redrive
from dpp_project.outbox.events import Event, NotRetryable
from dpp_project.outbox.models import EventDeadLetter, OutboxMessage
from tests.gear.builders import events as gear
from tests.gear.builders.events import EventWorld, effects_table, world
from tests.gear.faults.cutpoints import Ended, Forge, forge
from tests.gear.faults.wire import Fault
from tests.proving import proofs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("AUT-05", "AUT-06", "AUT-07", "AUT-08")]
__all__ = ["effects_table", "forge", "world"]

SPREAD: Final = 10
LONG_SECONDS: Final = 4_000
ROUNDS: Final = 8


def refuses(_event: Event) -> None:
    raise NotRetryable("unknown")


def fails(_event: Event) -> None:
    raise ValueError


@dataclass(frozen=True)
class Step:
    """What is going on when it happens, and how often the event must have had its effect in the end."""

    name: str
    prepare: Callable[[EventWorld], OutboxMessage]
    act: Callable[[EventWorld], object]
    effects: int = 1
    may_die: bool = False


def to_publish(_world: EventWorld) -> OutboxMessage:
    return gear.written(gear.an_event("a"))


def to_consume(world: EventWorld) -> OutboxMessage:
    event = gear.written(gear.an_event("a"))
    world.publish()
    return event


def overdue(world: EventWorld) -> OutboxMessage:
    """A publisher died with one, a consumer with the other, and the queue has lost the message."""
    event = to_consume(world)
    gear.claimed_by_another(event)
    world.queues.sqs.purge_queue(QueueUrl=world.queues.runs_url)
    gear.aged(event, seconds=LONG_SECONDS)
    return event


def dead(world: EventWorld) -> OutboxMessage:
    event = to_consume(world)
    handle, world.handle = world.handle, refuses
    world.consume()
    world.handle = handle
    return event


def given_up_by_the_queue(world: EventWorld) -> OutboxMessage:
    event = to_consume(world)
    world.queues.sqs.purge_queue(QueueUrl=world.queues.runs_url)
    ledger.ensure_row_exists(event.outbox_id)
    world.queues.sqs.send_message(QueueUrl=world.queues.dlq_url, **messages.queue_message_of(event).fields())
    return event


def with_handler(handle: Callable[[Event], None]) -> Callable[[EventWorld], object]:
    def act(world: EventWorld) -> object:
        world.handle = handle
        return world.consume()

    return act


STEPS: Final = (
    Step("publish", to_publish, lambda world: world.publish()),
    Step("consume", to_consume, lambda world: world.consume()),
    Step("retry", to_consume, with_handler(fails)),
    Step("refuse", to_consume, with_handler(refuses), may_die=True),
    Step("resend", overdue, lambda _world: jobs.resend_overdue_events(now=clock.now(), limit=100).changed),
    Step(
        "redrive",
        dead,
        lambda _world: str(redrive.redrive(EventDeadLetter.objects.get(), actor="operator:ada")),
        may_die=True,
    ),
    Step(
        "drain", given_up_by_the_queue, lambda _world: jobs.dead_letters(now=clock.now(), limit=1).changed, may_die=True
    ),
)
every_step = pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)


@pytest.fixture(autouse=True)
def _its_queues(world: EventWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "URL", world.queues.runs_url)
    monkeypatch.setattr(queue, "DEAD_LETTERS_URL", world.queues.dlq_url)
    monkeypatch.setattr(queue, "event_sender", world.sender)


def struck(step: Step, world: EventWorld, forge: Forge, *, at: int | None = None, fault: Fault | None = None) -> Ended:
    OutboxMessage.objects.all().delete()
    gear.forget_effects()
    world.empty()
    event = step.prepare(world)

    def act() -> object:
        world.senders.clear()  # the parent's leads past the wire
        queue.event_poller._made = clients.sqs_client()
        return step.act(world)

    ended = forge.run(act, at=at, fault=fault)
    recover(world, event)
    holds_true(step, world, event)
    return ended


def recover(world: EventWorld, event: OutboxMessage) -> None:
    for _ in range(ROUNDS):
        for one in OutboxMessage.objects.all():
            gear.aged(one, seconds=LONG_SECONDS)
        jobs.resend_overdue_events(now=clock.now(), limit=100)
        jobs.dead_letters(now=clock.now(), limit=0)
        world.until_quiet()
        if not OutboxMessage.objects.filter(handled_at__isnull=True).exists():
            break
    for _ in range(2):
        world.deliver(messages.queue_message_of(event))
    world.until_quiet()


def holds_true(step: Step, world: EventWorld, event: OutboxMessage) -> None:
    known = gear.ledger_row(event)
    assert known is not None
    letters = gear.letters()
    if known.status == "DEAD":
        assert step.may_die
        assert (gear.effects(), {outbox_id for _, outbox_id in letters}) == ([], {event.outbox_id})
        assert gear.row(event).handled_at is not None
        return
    assert (known.status, gear.row(event).status, gear.row(event).handled_at is None) == ("DONE", "PUBLISHED", False)
    assert (gear.effects(), gear.effects(gear.FOLLOWED.event_type)) == (["a"], ["a"])
    assert OutboxMessage.objects.count() == 2
    if step.name in {"publish", "consume", "retry", "resend"}:
        assert letters == []


@every_step
def test_aut_06_a_request_may_be_a_steps_last(step: Step, world: EventWorld, forge: Forge) -> None:
    undisturbed = struck(step, world, forge)
    assert (undisturbed.failed, undisturbed.killed) == (None, False)
    turn = STEPS.index(step)
    for at in range(turn % SPREAD, len(undisturbed.requests), SPREAD):
        fault = list(Fault)[(at // SPREAD + turn) % len(Fault)]
        ended = struck(step, world, forge, at=at, fault=fault)
        assert (ended.struck, ended.killed) == (True, fault.kills)


@pytest.mark.slow
@pytest.mark.timeout(600)
@every_step
def test_aut_06_every_request_of_every_step_killed_and_cut(step: Step, world: EventWorld, forge: Forge) -> None:
    """Each request meets a kill and a cut, before and after it by turns."""
    count, met = len(struck(step, world, forge).requests), 0
    for at in range(count):
        for fault in (list(Fault)[at % 2], list(Fault)[2 + (at + at // 2) % 2]):
            met += struck(step, world, forge, at=at, fault=fault).struck
    assert met == count * 2
    proofs.report(cases=met)


# A check that cannot fail proves nothing.


def test_an_effect_outside_of_the_consumers_transaction_is_found(
    world: EventWorld, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DONE alone in a transaction of its own: killed before it, the effect comes again."""
    consume = next(step for step in STEPS if step.name == "consume")
    monkeypatch.setattr("dpp_project.outbox.consumer.EventConsumer._effect", gear.careless_effect)
    count = len(struck(consume, world, forge).requests)
    found = 0
    for at in range(count):
        try:
            struck(consume, world, forge, at=at, fault=Fault.KILL_BEFORE)
        except AssertionError:
            found += 1
            break
    assert found == 1
