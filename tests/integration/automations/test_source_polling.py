"""The loop over all sources: none holds up another, two processes are one, and a schedule fires once a day."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections
from django.db.models.functions import Now

from dpp_project import retention
from dpp_project.process_env import ENV
from dpp_project.stores.postgres import database_now
from ops.automations.models import AutomationEvent, AutomationSource, SeenEvent
from ops.automations.reach import Outside
from ops.automations.sources import acts, asking, github, looks, source_marks
from ops.automations.sources.polling import SourcePoller
from tests.gear.builders.automation_world import (
    World,
    _hosting,
    a_github,
    a_jira,
    a_schedule,
    events,
    look,
    row,
    world,
)
from tests.gear.servers.services.hosting import HANGS
from tests.gear.waiting import wait_until

__all__ = ["_hosting", "world"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-06")]


def test_lif_06_a_source_that_hangs_holds_up_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 3.0)
    hanging, well = a_github(), a_jira()
    world.github.befalls(HANGS)
    world.jira.updates("10001")
    poller = SourcePoller(world.outside)
    poller.turn()
    wait_until(lambda: events(well), what="the event of the other source")
    assert row(hanging).looked_at is None
    assert row(hanging).failures == 0
    poller.turn()  # what is under way is not begun twice
    assert len(world.github.asked) == 1
    poller.end()
    assert row(hanging).last_error == "UNREACHABLE TIMEOUT"


def beside(act: Callable[[], None]) -> None:
    try:
        act()
    finally:
        connections.close_all()


def test_lif_06_two_pollers_at_once_look_once(world: World) -> None:
    source = a_github()
    world.github.happens("12")
    pollers = [SourcePoller(world.outside) for _ in range(2)]
    threads = [threading.Thread(target=beside, args=(poller.turn,)) for poller in pollers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for poller in pollers:
        poller.end()
    assert world.github.paths().count("/user") == 1
    assert len(events(source)) == 1


def test_lif_06_a_poller_that_died_is_followed_when_its_lease_has_run_out(world: World) -> None:
    source = a_github()
    world.github.happens("12")
    assert len(source_marks.claim_source_looks(kinds=["GITHUB"])) == 1  # and dies
    poller = SourcePoller(world.outside)
    poller.turn()
    poller.end()
    assert events(source) == []
    AutomationSource.objects.update(lease_until=Now() - timedelta(seconds=1))
    poller.turn()
    poller.end()
    assert len(events(source)) == 1


def test_lif_06_the_loop_runs_until_it_is_told_to_end(world: World) -> None:
    source = a_github()
    world.github.happens("12")
    stop = threading.Event()
    thread = threading.Thread(target=beside, args=(lambda: SourcePoller(world.outside).run(stop),), daemon=True)
    thread.start()
    try:
        wait_until(lambda: events(source), what="its event")
    finally:
        stop.set()
        thread.join(20)
    assert not thread.is_alive()


def test_lif_06_a_fault_of_ours_is_one_sources_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, well = a_github(), a_jira()
    world.jira.updates("10001")

    def fails(*_arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(github, "look_at_github", fails)
    poller = SourcePoller(world.outside)
    poller.turn()
    poller.end()
    assert row(broken).last_error == "FAULT ZeroDivisionError"
    assert len(events(well)) == 1


def test_lif_06_a_paused_source_is_not_looked_at(world: World) -> None:
    source = a_github()
    world.github.happens("12")
    acts.pause_source(source=source, actor="operator:ada")
    SourcePoller(world.outside).turn()
    assert world.github.asked == []
    acts.resume_source(source=source, actor="operator:ada")
    look(world, source)
    assert len(events(source)) == 1  # of the time when it was paused


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def scheduled(source: AutomationSource, moments: list[str], monkeypatch: pytest.MonkeyPatch, world: World) -> list[str]:
    """The dates of its events after looks at these moments."""
    AutomationSource.objects.filter(pk=source.pk).update(created_at=at("2026-01-01T00:00"))
    for one in moments:
        monkeypatch.setattr(looks, "database_now", lambda one=one: at(one))
        look(world, source)
    return [event.event_id for event in events(source)]


@pytest.mark.parametrize(
    ("local", "moments", "dates"),
    [
        pytest.param(
            "09:00",
            ["2026-03-01T07:59", "2026-03-01T08:00", "2026-03-01T20:00"],
            ["2026-02-28", "2026-03-01"],
            id="once, however often it is looked at",
        ),
        pytest.param("09:00", ["2026-03-01T11:17"], ["2026-03-01"], id="late, where nobody looked at its time"),
        pytest.param("09:00", ["2026-03-01T09:00", "2026-03-05T09:00"], ["2026-03-01", "2026-03-05"], id="away"),
        pytest.param(
            "02:30",
            ["2026-03-28T02:00", "2026-03-29T00:59", "2026-03-29T01:00", "2026-03-29T12:00"],
            ["2026-03-28", "2026-03-29"],
            id="a day without 02:30",
        ),
        pytest.param(
            "02:30",
            ["2026-10-25T00:29", "2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T12:00"],
            ["2026-10-24", "2026-10-25"],
            id="a day with 02:30 twice",
        ),
        pytest.param(
            "09:00",
            ["2026-03-01T09:00", "2026-03-02T09:00", "2026-03-01T09:00", "2026-03-02T09:00"],
            ["2026-03-01", "2026-03-02"],
            id="a clock that was set back",
        ),
    ],
)
def test_lif_06_a_schedule_fires_once_a_day(
    world: World, monkeypatch: pytest.MonkeyPatch, local: str, moments: list[str], dates: list[str]
) -> None:
    assert scheduled(a_schedule(at=local), moments, monkeypatch, world) == dates


@pytest.mark.contract("LIF-05")
def test_lif_05_a_schedule_fires_once_on_a_day_longer_than_what_was_seen_is_remembered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ENV", ENV.model_copy(update={"DPP_SEEN_DAYS": 1}))
    source = a_schedule()
    assert scheduled(source, ["2026-10-24T07:00"], monkeypatch, world) == ["2026-10-24"]
    AutomationEvent.objects.all().delete()
    SeenEvent.objects.all().delete()
    assert scheduled(source, ["2026-10-25T07:30"], monkeypatch, world) == []  # half an hour before the next
    assert scheduled(source, ["2026-10-25T08:00"], monkeypatch, world) == ["2026-10-25"]


def test_lif_06_a_new_schedule_is_not_due_for_the_past(world: World) -> None:
    now = database_now()
    source = a_schedule(at=(now - timedelta(minutes=5)).strftime("%H:%M"), zone="UTC")
    after = look(world, source)
    assert events(source) == []
    assert 0 < (after.next_look_at - now).total_seconds() <= looks.SCHEDULE_SECONDS_MAX + 5


def test_lif_06_a_schedule_that_was_paused_over_its_time_is_not_due_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = a_schedule()
    AutomationSource.objects.update(created_at=at("2026-01-01T00:00"))
    acts.pause_source(source=source, actor="operator:ada")
    acts.resume_source(source=row(source), actor="operator:ada")
    monkeypatch.setattr(looks, "database_now", lambda: at("2026-03-01T12:00"))
    look(world, source)
    assert events(source) == []


def test_lif_06_the_outside_is_that_of_webhooks() -> None:
    real = Outside.real()
    assert not real.rules.is_operators
