"""Whole processes `events`, two at once: killed at any moment, or ended in order with work in hand."""

import random
from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from django.db.models import F

from dpp_project import clock
from dpp_project.outbox import jobs
from dpp_project.outbox.models import EventDeadLetter, OutboxMessage, ProcessedMessage
from tests.gear.builders.events import FOLLOWED, EventWorld, effects, effects_table, world, written_many
from tests.gear.servers.effects_process import PROGRAM
from tests.gear.servers.events_process import EventsProcess, an_events_process
from tests.gear.waiting import wait_until
from tests.proving import proofs

pytestmark = [pytest.mark.contract("AUT-05", "AUT-06"), pytest.mark.django_db(transaction=True)]
__all__ = ["effects_table", "world"]

LONG_AGO: Final = timedelta(hours=2)
"""Past every claim, lease and resend."""


def a_process(folder: Path, world: EventWorld, name: str, **environ: str) -> AbstractContextManager[EventsProcess]:
    """On a queue of this test alone: the open poll of a killed one takes messages along."""
    queues = {"DPP_EVENTS_QUEUE_URL": world.queues.runs_url, "DPP_EVENTS_DLQ_URL": world.queues.dlq_url}
    return an_events_process(folder, *PROGRAM, name=name, **queues, **environ)


def all_handled() -> bool:
    return not OutboxMessage.objects.filter(handled_at=None).exists()


def recovered() -> bool:
    """What deaths left is old at once, and beat comes by: takeover and resend."""
    open_rows = OutboxMessage.objects.filter(handled_at=None)
    open_rows.filter(status="PROCESSING").update(claimed_at=F("claimed_at") - LONG_AGO)
    open_rows.filter(status="PUBLISHED").update(resend_at=F("resend_at") - LONG_AGO)
    ProcessedMessage.objects.filter(status="PROCESSING").update(lease_until=F("lease_until") - LONG_AGO)
    jobs.resend_overdue_events(now=clock.now(), limit=10_000)
    return all_handled()


def each_once(count: int) -> None:
    things = [f"{number:06}" for number in range(count)]
    assert effects() == things
    assert effects(FOLLOWED.event_type) == things
    assert set(ProcessedMessage.objects.values_list("status", flat=True)) == {"DONE"}
    assert ProcessedMessage.objects.count() == OutboxMessage.objects.count() == 2 * count
    assert not EventDeadLetter.objects.exists()


def killed(folder: Path, world: EventWorld, *, kills: int, count: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable, no secret
    with ExitStack() as stack:
        running = [stack.enter_context(a_process(folder, world, name)) for name in ("first", "other")]
        written_many(count)
        for number in range(kills):
            at = chance.randrange(count)
            wait_until(lambda at=at: len(effects()) >= at or all_handled(), seconds=30, what=f"{at} effects")  # type: ignore[misc]
            running[number % 2].kill()
            running[number % 2] = stack.enter_context(a_process(folder, world, f"again-{number}"))
        wait_until(lambda: all_handled() or recovered(), seconds=60, pause_seconds=0.5, what="every event's end")
    each_once(count)


def test_aut_06_two_processes_one_of_them_killed_do_each_effect_once(tmp_path: Path, world: EventWorld) -> None:
    killed(tmp_path, world, kills=1, count=150, seed=4)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2))
def test_aut_06_two_processes_killed_at_any_moment_again_and_again_do_each_effect_once(
    tmp_path: Path, world: EventWorld, seed: int
) -> None:
    killed(tmp_path, world, kills=8, count=1_000, seed=seed)
    proofs.report(cases=1_000)


def test_aut_05_what_waited_without_queues_and_was_in_hand_at_sigterm_is_handled_once(
    tmp_path: Path, world: EventWorld
) -> None:
    """Three processes, one after the other: without queues, told to end with work in hand, and one for the rest."""
    written_many(30)
    none = {"DPP_EVENTS_QUEUE_URL": "", "DPP_EVENTS_DLQ_URL": ""}
    with an_events_process(tmp_path, *PROGRAM, name="without", **none) as events:
        (said,) = events.lines("DPP_EVENTS_QUEUE_URL is not set: events wait in Postgres until it is")
        assert said["level"] == "warning"
        events.terminate()
        assert events.wait_exit() == 0
    assert set(OutboxMessage.objects.values_list("status", "retry_count", "handled_at")) == {("PENDING", 0, None)}
    assert (ProcessedMessage.objects.count(), effects()) == (0, [])

    with a_process(tmp_path, world, "first", GEAR_HANDLE_SECONDS="0.3") as events:
        wait_until(lambda: ProcessedMessage.objects.filter(status="PROCESSING").exists(), what="work in hand")
        events.terminate()
        assert events.wait_exit() == 0
        assert events.lines("event not handled") == []
    assert not OutboxMessage.objects.filter(status="PROCESSING").exists()
    assert set(ProcessedMessage.objects.values_list("status", flat=True)) == {"DONE"}, "nothing is left at work"
    done = len(effects())
    assert 0 < done < 30

    with a_process(tmp_path, world, "next"):
        wait_until(all_handled, seconds=30, what="the rest, without any lease or visibility to wait for")
    each_once(30)
