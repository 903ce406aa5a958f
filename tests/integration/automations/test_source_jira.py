"""Jira's search: what is asked, what an index that lags hides, and what may go wrong on the way."""

import re
from datetime import datetime, timedelta

import pytest

from dpp_project import clock, retention
from dpp_project.lifecycle import cleaning
from dpp_project.process_env import ENV
from ops.automations.models import AutomationMessage, AutomationSource, SeenEvent
from ops.automations.notify import telling
from ops.automations.sources import jira, looks
from ops.automations.states import EventOutcome, EventStatus
from ops.automations.tasks import dispatching
from tests.gear.builders.automation_world import (
    World,
    _hosting,
    a_jira,
    actors,
    days_pass,
    events,
    look,
    passes,
    row,
    world,
)
from tests.gear.servers.services.hosting import GARBAGE, Mishap, refuses
from tests.gear.servers.services.jira import OWN_ACCOUNT, REMOVED

__all__ = ["_hosting", "world"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-06")]


def searches(world: World) -> list[dict[str, object]]:
    return [one.said for one in world.jira.asked if one.path == jira.SEARCH]


def minutes(world: World) -> list[int]:
    found = [re.search(r"updated >= -(\d+)m ORDER BY updated ASC$", str(one["jql"])) for one in searches(world)]
    return [int(one[1]) for one in found if one is not None]


def test_lif_06_an_update_becomes_an_event_with_its_actor_and_fields(world: World) -> None:
    source = a_jira()
    world.jira.updates("10012", by="6c20-ann")
    look(world, source)
    (event,) = events(source)
    assert (event.thread, event.actor) == ("SHOP-12", "6c20-ann")
    assert event.event_id == f"10012:{event.occurred_at.isoformat()}"
    assert event.payload["fields"]["summary"] == "A door"
    assert event.payload["fields"]["assignee"] == {"account_id": "6c20-ann", "name": "Ann"}
    assert "emailAddress" not in str(event.payload)
    assert event.payload["comment"]["author"] == "Ann"


def test_lif_06_the_search_is_relative_ascending_and_names_its_fields(world: World) -> None:
    source = a_jira()
    look(world, source)
    (search,) = searches(world)
    assert search["jql"] == "(project = SHOP) AND updated >= -16m ORDER BY updated ASC"
    fields = search["fields"]
    assert isinstance(fields, list)
    assert {"updated", "summary"} <= set(fields)
    assert "/rest/api/3/search" not in world.jira.paths()  # which answers 410


def test_lif_06_the_minutes_are_those_since_the_last_whole_search_and_a_quarter_of_an_hour(world: World) -> None:
    source = a_jira()
    look(world, source)
    passes(source, minutes=40)
    look(world, source)
    passes(source, days=90)
    look(world, source)
    first, later, longest = minutes(world)
    assert (first, later) == (16, 56)
    assert longest == (30 * 24 - 1) * 60 + jira.LAG_MINUTES  # as long as what was seen is remembered


def test_lif_06_a_clock_that_was_set_back_asks_for_the_lag_alone(world: World) -> None:
    source = a_jira()
    look(world, source)
    passes(source, minutes=-30)
    look(world, source)
    assert minutes(world)[-1] == jira.LAG_MINUTES


def test_lif_06_an_issue_that_the_index_finds_late_is_found(world: World) -> None:
    source = a_jira()
    world.jira.updates("10001", lag=timedelta(hours=1))
    look(world, source)
    assert events(source) == []
    world.jira.found_at["10001"] = clock.now()
    look(world, source)
    assert len(events(source)) == 1
    look(world, source)
    assert len(events(source)) == 1  # found again for a quarter of an hour, and told once


@pytest.mark.contract("LIF-05")
def test_lif_05_an_issue_is_no_event_again_once_it_is_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that was away asks for the quarter of an hour before it went, too."""
    monkeypatch.setattr(retention, "ENV", ENV.model_copy(update={"DPP_SEEN_DAYS": 1, "DPP_QUEUE_DAYS": 1}))
    source = a_jira()
    world.jira.updates("10001")
    look(world, source)
    dispatching.dispatch_due(limit=10)  # no rule wants it: it has ended
    days_pass(world, source, 3)
    cleaning.clean_now(now=clock.now(), limit=1_000)
    assert not SeenEvent.objects.exists()
    world.jira.updates("10002")
    look(world, source)
    assert [event.thread for event in events(source)] == ["SHOP-2"]


def test_lif_06_an_issue_that_is_updated_again_is_a_new_event(world: World) -> None:
    source = a_jira()
    world.jira.updates("10001")
    look(world, source)
    world.jira.updates("10001", by="7d30-bob")
    look(world, source)
    assert actors(source) == ["6c20-ann", "7d30-bob"]


def test_lif_06_our_own_comment_in_jira_starts_nothing(world: World) -> None:
    source = a_jira()
    world.jira.updates("10001", by=OWN_ACCOUNT)
    look(world, source)
    (event,) = events(source)
    assert (event.status, event.outcome) == (EventStatus.COMPLETED, EventOutcome.OWN_ACTOR)


def test_lif_06_a_search_longer_than_a_look_is_resumed_by_its_token(world: World) -> None:
    source = a_jira()
    for number in range(230):
        world.jira.updates(str(20_000 + number))
    half = look(world, source)
    assert (len(events(source)), half.cursor) == (200, "")
    assert (half.next_look_at - clock.now()).total_seconds() < 5
    passes(source, minutes=3)
    whole = look(world, source)
    assert len(events(source)) == 230
    began = datetime.fromisoformat(whole.cursor)
    assert began <= clock.now() - timedelta(minutes=3), "what was updated while it searched is asked for again"
    assert "search" not in whole.state
    assert len({str(one["jql"]) for one in searches(world)}) == 1  # a token belongs to its query


def test_lif_06_a_token_that_has_ended_begins_the_search_anew(world: World) -> None:
    source = a_jira()
    for number in range(230):
        world.jira.updates(str(20_000 + number))
    look(world, source)
    world.jira.tokens.clear()
    anew = look(world, source)
    assert (anew.failures, "search" in anew.state, anew.cursor) == (0, False, "")
    look(world, source)
    look(world, source)
    assert len(events(source)) == 230


@pytest.mark.parametrize(
    ("mishap", "error"),
    [
        (refuses(410, REMOVED), "GONE 410"),
        (refuses(401), "TOKEN_REFUSED 401"),
        (refuses(400, {"errorMessages": ["Field 'colour' does not exist."]}), "QUESTION_REFUSED 400"),
        (refuses(503), "SERVER_ERROR 503"),
        (GARBAGE, "GARBAGE no JSON"),
        (refuses(200, []), "GARBAGE no page of issues"),
        (refuses(200, {"issues": [{"id": "1"}]}), "GARBAGE a moment that is none"),
    ],
)
def test_lif_06_a_jira_that_answers_wrongly_is_told_and_asked_later(world: World, mishap: Mishap, error: str) -> None:
    source = a_jira()
    look(world, source)
    before = row(source)
    world.jira.updates("10001")
    world.jira.befalls(mishap, at=jira.SEARCH)
    failing = look(world, source)
    assert (failing.failures, failing.last_error, failing.cursor) == (1, error, before.cursor)
    assert events(source) == []
    look(world, source)
    assert len(events(source)) == 1


def test_lif_06_a_source_that_goes_on_failing_is_said_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "ENV", ENV.model_copy(update={"DPP_AUTOMATIONS_NOTIFY": "slack:C09"}))
    source = a_jira()
    world.jira.befalls(*[refuses(503)] * 7)
    said = []
    for _ in range(7):
        look(world, source)
        said.append(AutomationMessage.objects.count())
    assert said == [0, 0, 0, 0, 1, 1, 1]
    assert AutomationMessage.objects.get().body.startswith("The source jira fails: SERVER_ERROR 503, not looked at")


def test_lif_06_a_death_between_a_failures_mark_and_its_alarm_loses_no_alarm(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "ENV", ENV.model_copy(update={"DPP_AUTOMATIONS_NOTIFY": "slack:C09"}))
    source = a_jira()
    world.jira.befalls(*[refuses(503)] * (looks.FAILURES_TOLD + 2))
    for _ in range(looks.FAILURES_TOLD - 1):
        look(world, source)

    def dies(**_said: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(telling, "tell_platform", dies)
        with pytest.raises(KeyboardInterrupt):
            look(world, source)
    AutomationSource.objects.update(lease_owner=None, lease_until=None)  # it runs out
    assert not AutomationMessage.objects.exists()
    assert look(world, source).failures == looks.FAILURES_TOLD
    assert AutomationMessage.objects.count() == 1
    look(world, source)
    assert AutomationMessage.objects.count() == 1


def test_lif_06_an_issue_too_large_to_be_kept_is_kept_by_its_name(world: World) -> None:
    source = a_jira()
    world.jira.updates("10001")["fields"]["labels"] = ["x" * 1_000] * 1_200
    world.jira.updates("10002")
    look(world, source)
    large, usual = events(source)
    assert (large.payload["key"], large.payload["is_cut"]) == ("SHOP-1", True)
    assert usual.payload["key"] == "SHOP-2"


def test_lif_06_what_postgres_cannot_hold_is_replaced(world: World) -> None:
    source = a_jira()
    world.jira.updates("10001")["fields"]["summary"] = "a\x00b\ud800"
    look(world, source)
    assert events(source)[0].payload["fields"]["summary"] == "a\ufffdb\ufffd"
