"""GitHub's notifications: what is asked, what becomes an event, and what may go wrong on the way."""

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from dpp_project import clock, retention
from dpp_project.lifecycle import cleaning
from dpp_project.process_env import ENV
from ops.automations import emitting
from ops.automations.models import AutomationEvent, AutomationMessage, AutomationSource, SeenEvent
from ops.automations.sources import acts, asking, github, looks, source_marks
from ops.automations.states import EventOutcome, EventStatus, MessageKind
from ops.automations.tasks import dispatching
from runs.box.box import Box
from runs.models import Run
from tenants.models import Tenant
from tests.gear.builders import automations as gear
from tests.gear.builders.automation_shop import an_automation_shop
from tests.gear.builders.automation_world import (
    World,
    _hosting,
    a_github,
    actors,
    days_pass,
    events,
    look,
    passes,
    row,
    world,
)
from tests.gear.servers.services.github import FINE_GRAINED, OWN_LOGIN
from tests.gear.servers.services.hosting import CUT, GARBAGE, HANGS, Mishap, refuses

__all__ = ["_hosting", "world"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-06")]


def notifications(world: World) -> list[dict[str, str]]:
    """The questions, each by its query and validators."""
    return [
        one.query | {name: one.headers[name] for name in ("if-none-match", "if-modified-since") if name in one.headers}
        for one in world.github.asked
        if one.path == "/notifications"
    ]


def test_lif_06_a_comment_becomes_an_event_with_its_actor(world: World) -> None:
    source = a_github()
    world.github.happens("12", by="octocat", body="Please open the door.")
    after = look(world, source)
    (event,) = events(source)
    assert (event.thread, event.actor, event.status) == ("12", "octocat", EventStatus.PENDING)
    assert event.event_id == f"12:{event.occurred_at.isoformat()}"
    assert event.payload["comment"]["body"] == "Please open the door."
    assert event.payload["repository"]["full_name"] == "acme/shop"
    assert (after.failures, after.last_error, after.state["login"]) == (0, "", OWN_LOGIN)


def test_lif_06_the_hint_costs_nothing_while_nothing_is_new(world: World) -> None:
    source = a_github()
    world.github.happens("12")
    look(world, source)  # the sweep
    look(world, source)  # the hint, which brings all unread ones again
    look(world, source)  # the hint with what it was answered
    sweep, first, again = notifications(world)
    assert sweep["all"] == "true"
    assert "all" not in first
    assert {"if-none-match", "if-modified-since"} <= set(again)
    assert len(events(source)) == 1


def test_lif_06_a_200_that_brings_everything_again_makes_no_event_twice(world: World) -> None:
    source = a_github()
    for number in range(5):
        world.github.happens(str(number))
    look(world, source)
    world.github.happens("9")
    asked_before = len(world.github.asked)
    look(world, source)
    assert len(events(source)) == 6
    # Of what was seen, nobody asks for the comment again.
    assert len(world.github.asked) == asked_before + 2


def test_lif_06_a_thread_that_moves_again_is_a_new_event(world: World) -> None:
    source = a_github()
    world.github.happens("12", at=clock.now())
    look(world, source)
    world.github.happens("12", at=clock.now() + timedelta(seconds=2), by="hubot")
    look(world, source)
    assert actors(source) == ["octocat", "hubot"]
    assert len({event.event_id for event in events(source)}) == 2


def test_lif_06_a_304_that_sticks_hides_nothing_for_longer_than_a_sweep(world: World) -> None:
    source = a_github()
    look(world, source)
    look(world, source)
    world.github.sticks = True
    world.github.happens("12")
    look(world, source)
    assert events(source) == []  # the hint says that nothing is new
    passes(source, minutes=16)
    look(world, source)
    assert len(events(source)) == 1


def test_lif_06_what_a_person_read_first_is_swept_all_the_same(world: World) -> None:
    source = a_github()
    look(world, source)
    world.github.happens("12", unread=False)
    look(world, source)
    assert events(source) == []
    passes(source, minutes=16)
    look(world, source)
    assert len(events(source)) == 1


def test_lif_06_the_poll_interval_is_obeyed_whoever_asks_for_a_look(world: World) -> None:
    source = a_github()
    world.github.poll_interval = 300
    after = look(world, source)
    assert after.looked_at is not None
    assert timedelta(seconds=299) <= after.next_look_at - after.looked_at <= timedelta(seconds=301)
    acts.look_now(source=after, actor="operator:ada")
    assert row(source).next_look_at >= after.looked_at + timedelta(seconds=298)
    assert source_marks.claim_source_looks(kinds=["GITHUB"]) == []


def test_lif_06_our_own_comment_starts_nothing(world: World) -> None:
    source = a_github()
    world.github.happens("12", by=OWN_LOGIN)
    world.github.happens("13", by="octocat")
    look(world, source)
    by_thread = {event.thread: event for event in events(source)}
    assert (by_thread["12"].status, by_thread["12"].outcome) == (EventStatus.COMPLETED, EventOutcome.OWN_ACTOR)
    assert by_thread["13"].status == EventStatus.PENDING
    look(world, source)
    assert len(events(source)) == 2


def test_lif_06_an_old_comment_of_ours_does_not_hide_who_moved_the_thread_since(world: World) -> None:
    source = a_github()
    moved = world.github.happens("12", by=OWN_LOGIN, at=clock.now() - timedelta(minutes=30))
    world.github.threads["12"] = moved | {"updated_at": clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"), "reason": "assign"}
    look(world, source)
    (event,) = events(source)
    assert (event.actor, event.status) == ("", EventStatus.PENDING)


def test_lif_06_a_comment_that_cannot_be_read_leaves_the_actor_unknown(world: World) -> None:
    source = a_github()
    world.github.happens("12")
    world.github.comments.clear()
    look(world, source)
    assert actors(source) == [""]


COMMENTS = "/repos/acme/shop/issues/comments"


def who(source: AutomationSource) -> dict[str, str]:
    """The actor of each thread's event."""
    return {event.thread: event.actor for event in events(source)}


def three_comment(world: World, *, ago: timedelta = timedelta(0)) -> dict[str, str]:
    """The newest in thread 1."""
    for number, by in enumerate(("ann", "bob", "cleo")):
        world.github.happens(str(number + 1), by=by, at=clock.now() - ago - timedelta(seconds=5 * number))
    return {"1": "ann", "2": "bob", "3": "cleo"}


@pytest.mark.parametrize("asked_by", ["hint", "sweep"])
def test_lif_06_a_comment_that_fails_once_is_asked_for_again(world: World, asked_by: str) -> None:
    source = passes(a_github(), hours=2)
    before = look(world, source) if asked_by == "hint" else row(source)
    people = three_comment(world)
    world.github.befalls(refuses(502), at=f"{COMMENTS}/2")
    after = look(world, source)
    assert who(source) == {"1": "ann", "3": "cleo"}
    assert (after.failures, after.etag, after.cursor) == (0, before.etag, before.cursor)
    assert after.state.get("swept_at") == before.state.get("swept_at")
    assert after.looked_at is not None
    assert (after.next_look_at - after.looked_at).total_seconds() <= 61
    again = look(world, source)
    assert who(source) == people
    assert ("missed_since" in after.state, "missed_since" in again.state) == (True, False)
    assert (bool(again.etag), bool(again.cursor)) == (asked_by == "hint", True)


def test_lif_06_a_look_that_runs_out_of_time_leaves_the_rest_to_the_next_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = passes(a_github(), hours=3)
    people = three_comment(world, ago=timedelta(hours=2))
    world.github.befalls(HANGS, at=f"{COMMENTS}/2")
    with monkeypatch.context() as patch:
        patch.setattr(looks, "LOOK_SECONDS", 3.0)
        after = look(world, source)
    assert who(source) == {"1": "ann"}
    assert (after.failures, after.cursor, "missed_since" in after.state) == (0, "", False)
    look(world, source)
    assert who(source) == people


def test_lif_06_our_own_comment_is_known_as_ours_when_it_is_read_at_last(world: World) -> None:
    source = a_github()
    world.github.happens("12", by=OWN_LOGIN)
    world.github.befalls(refuses(503), at=COMMENTS)
    look(world, source)
    assert events(source) == []
    look(world, source)
    assert [event.outcome for event in events(source)] == [EventOutcome.OWN_ACTOR]


def test_lif_06_a_comment_that_fails_for_an_hour_counts_as_none(world: World) -> None:
    source = passes(a_github(), hours=9)
    three_comment(world, ago=timedelta(hours=4))
    world.github.befalls(*[refuses(500)] * 3, at=f"{COMMENTS}/2")
    look(world, source)
    source = passes(source, minutes=59)
    look(world, source)
    assert who(source) == {"1": "ann", "3": "cleo"}  # it is old, and was asked for twice within an hour
    source = passes(source, minutes=2)
    after = look(world, source)
    assert who(source) == {"1": "ann", "2": "", "3": "cleo"}
    assert (bool(after.cursor), "missed_since" in after.state) == (True, False)


def test_lif_06_a_comment_that_fails_beside_one_that_always_did_is_not_given_up_with_it(world: World) -> None:
    source = passes(a_github(), hours=9)
    world.github.happens("1", at=clock.now() - timedelta(hours=4))
    world.github.befalls(*[refuses(500)] * 2, at=f"{COMMENTS}/1")
    look(world, source)
    source = passes(source, minutes=61)
    world.github.happens("2", by="bob")
    world.github.befalls(refuses(502), at=f"{COMMENTS}/2")
    look(world, source)
    assert who(source) == {"1": ""}
    look(world, source)
    assert who(source) == {"1": "", "2": "bob"}


def test_lif_06_a_long_sweep_with_a_comment_missing_goes_to_its_end_and_begins_anew(world: World) -> None:
    source = passes(a_github(), hours=2)
    for number in range(70):
        world.github.happens(str(number), at=clock.now() - timedelta(seconds=number * 3))
    world.github.befalls(refuses(502), at=f"{COMMENTS}/7")
    after = look(world, source)
    assert (len(events(source)), after.cursor, "sweep" in after.state) == (69, "", False)
    look(world, source)
    assert len(events(source)) == 70
    assert row(source).cursor


def test_lif_06_what_is_older_than_the_source_is_none_of_its_events(world: World) -> None:
    source = a_github()
    world.github.happens("12", at=clock.now() - timedelta(days=300))
    look(world, source)
    look(world, source)
    assert events(source) == []


@pytest.mark.contract("LIF-05")
@pytest.mark.parametrize("asked_by", ["hint", "sweep"])
@pytest.mark.parametrize(("seen_days", "passed_days"), [(30, 31), (1, 2)])
@pytest.mark.parametrize("is_kept", [False, True], ids=["event cleared", "event kept"])
def test_lif_05_a_notification_left_unread_is_no_event_again_once_it_is_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch, asked_by: str, seen_days: int, passed_days: int, *, is_kept: bool
) -> None:
    """GitHub lists it as long as nobody reads it."""
    monkeypatch.setattr(retention, "ENV", ENV.model_copy(update={"DPP_SEEN_DAYS": seen_days, "DPP_QUEUE_DAYS": 1}))
    source = passes(a_github(), days=60)
    world.github.happens("12")
    look(world, source)
    dispatching.dispatch_due(limit=10)  # no rule wants it: it has ended
    if is_kept:  # as long as its task is, such as one whose question nobody answers
        gear.bare_task(events(source)[0], gear.bare_rule(source))
    days_pass(world, source, passed_days)
    if asked_by == "hint":
        swept = row(source).state | {"swept_at": clock.now().isoformat()}
        AutomationSource.objects.filter(pk=source.pk).update(state=swept)
    cleaning.clean_now(now=clock.now(), limit=1_000)
    assert SeenEvent.objects.filter(source=source).exists() is is_kept
    world.github.happens("13")
    after = look(world, source)
    assert (after.failures, after.last_error) == (0, "")
    assert [event.thread for event in events(source) if event.status == EventStatus.PENDING] == ["13"]
    assert ("all" in notifications(world)[-1]) == (asked_by == "sweep")


def test_lif_06_a_source_that_was_away_finds_what_happened_as_far_back_as_is_remembered(world: World) -> None:
    source = passes(a_github(), days=60)
    for days in (29, 31):
        world.github.happens(str(days), at=clock.now() - timedelta(days=days))
    look(world, source)
    assert [event.thread for event in events(source)] == ["29"]


def test_lif_06_a_sweep_longer_than_a_look_goes_on_where_it_stopped(world: World) -> None:
    source = passes(a_github(), hours=2)
    for number in range(320):
        world.github.happens(str(number), at=clock.now() - timedelta(seconds=number * 3))
    first = look(world, source)
    assert 150 < len(events(source)) <= 200
    assert "sweep" in first.state
    look(world, source)
    assert len(events(source)) == 320
    assert "sweep" not in row(source).state


def test_lif_06_many_of_one_second_are_all_found(world: World) -> None:
    source = passes(a_github(), hours=2)
    at = clock.now() - timedelta(minutes=1)
    for number in range(130):
        world.github.happens(str(number), at=at)
    for _ in range(3):
        look(world, source)
    assert len(events(source)) == 130


@pytest.mark.contract("LIF-05")
def test_lif_05_a_death_before_the_marks_finds_the_same_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events, seen rows and marks are one transaction."""
    source = a_github()
    world.github.happens("12")

    def dies(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(source_marks, "mark_source_looked", dies)
        with pytest.raises(KeyboardInterrupt):
            look(world, source)
    assert events(source) == []
    assert not SeenEvent.objects.exists()
    assert row(source).state == {}
    AutomationSource.objects.update(lease_owner=None, lease_until=None)
    look(world, source)
    assert len(events(source)) == 1


@pytest.mark.contract("LIF-05")
def test_lif_05_two_looks_at_once_keep_each_event_once_and_the_marks_of_one(world: World) -> None:
    """The first one's lease has run out under it."""
    source = a_github()
    world.github.happens("12")
    (slow,) = source_marks.claim_source_looks(kinds=["GITHUB"])
    asked = looks.ask_source(slow.source, world.outside)
    AutomationSource.objects.update(lease_owner=None, lease_until=None)
    marked = look(world, source)
    looks.keep_look(slow, asked)
    assert len(events(source)) == 1
    assert row(source).version == marked.version


@pytest.mark.contract("LIF-05")
def test_lif_05_a_replay_is_refused_after_completed_was_cleared(world: World) -> None:
    source = a_github()
    world.github.happens("12")
    look(world, source)
    AutomationEvent.objects.all().delete()
    look(world, source)
    assert events(source) == []
    assert emitting.is_duplicate(source=source, event_id=SeenEvent.objects.get().event_id)


@pytest.mark.parametrize(
    ("mishap", "error"),
    [
        (CUT, "UNREACHABLE PROTOCOL_ERROR"),
        (GARBAGE, "GARBAGE no JSON"),
        (refuses(200, {"message": "not a list"}), "GARBAGE no list of notifications"),
        (refuses(200, [{"id": "1", "updated_at": "yesterday"}]), "GARBAGE a moment that is none"),
        (refuses(200, [{"id": 5, "updated_at": "2026-03-01T00:00:00Z"}]), "GARBAGE a notification without an id"),
        (refuses(401), "TOKEN_REFUSED 401"),
        (refuses(403), "FORBIDDEN 403"),
        (refuses(500), "SERVER_ERROR 500"),
        (refuses(302, None, location="https://evil.example/"), "GARBAGE 302"),
    ],
)
def test_lif_06_a_source_that_answers_wrongly_is_told_and_asked_later(world: World, mishap: Mishap, error: str) -> None:
    source = a_github()
    look(world, source)
    before = row(source)
    world.github.happens("12")
    world.github.befalls(mishap, at="/notifications")
    failing = look(world, source)
    assert (failing.failures, failing.last_error) == (1, error)
    assert (failing.state, failing.cursor, failing.looked_at) == (before.state, before.cursor, before.looked_at)
    assert (failing.next_look_at - clock.now()).total_seconds() > 50
    assert events(source) == []
    well = look(world, source)
    assert (well.failures, well.last_error, len(events(source))) == (0, "", 1)


def test_lif_06_a_rate_limit_is_waited_for(world: World) -> None:
    source = a_github()
    look(world, source)
    reset = int(clock.now().timestamp()) + 1_200
    world.github.befalls(
        refuses(403, {"message": "API rate limit exceeded"}, x_ratelimit_remaining="0", x_ratelimit_reset=str(reset)),
        at="/notifications",
    )
    failing = look(world, source)
    assert failing.last_error == "RATE_LIMITED 403"
    assert 1_150 < (failing.next_look_at - clock.now()).total_seconds() <= 1_201


def test_lif_06_a_rate_limit_whose_end_is_no_number_is_one_all_the_same(world: World) -> None:
    source = a_github()
    look(world, source)
    world.github.befalls(
        refuses(429, {"message": "slow down"}, x_ratelimit_remaining="0", x_ratelimit_reset="\u00b2"),
        at="/notifications",
    )
    assert look(world, source).last_error == "RATE_LIMITED 429"


def test_lif_06_a_fine_grained_token_is_named_as_what_it_is(world: World) -> None:
    source = a_github(settings={"token_env": "AUTOMATION_SECRET_TEST"}, token="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOMATION_SECRET_TEST", FINE_GRAINED)
        assert look(world, source).last_error == "FORBIDDEN not a classic token"
    assert look(world, source).last_error == "CREDENTIALS_MISSING AUTOMATION_SECRET_TEST is not set"


def test_lif_06_a_link_to_another_host_is_not_followed_with_the_token(world: World) -> None:
    source = a_github()
    moved = world.github.happens("12")
    moved["subject"]["latest_comment_url"] = "https://crm.example/steals"
    look(world, source)
    assert actors(source) == [""]
    assert world.crm.asked == []


def test_lif_06_a_link_that_is_none_holds_up_no_look(world: World) -> None:
    source = a_github()
    world.github.happens("12")["subject"]["latest_comment_url"] = "https://[1/"
    assert look(world, source).last_error == ""
    assert actors(source) == [""]


def test_lif_06_a_failing_source_is_asked_ever_more_seldom(world: World) -> None:
    source = a_github()
    steps = []
    for _ in range(7):
        world.github.befalls(refuses(500))
        failing = look(world, source)
        steps.append((failing.next_look_at - clock.now()).total_seconds())
    assert 53 < steps[0] < 67
    assert all(later > earlier for earlier, later in pairwise(steps[:4]))
    assert max(steps) <= looks.BACKOFF_MAX_SECONDS * (1 + looks.JITTER)


def test_lif_06_garbage_never_shows_in_what_is_told(world: World) -> None:
    source = a_github()
    world.github.befalls(refuses(200, {"login": ["hunter2"]}), at="/user")
    assert "hunter2" not in look(world, source).last_error


def test_lif_06_a_source_that_hangs_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 0.3)
    source = a_github()
    world.github.befalls(HANGS)
    assert look(world, source).last_error == "UNREACHABLE TIMEOUT"


def test_the_next_page_is_read_from_the_link_header() -> None:
    link = '<https://api.github.com/notifications?page=2>; rel="next", <https://api.github.com/n>; rel="last"'
    assert github.text_of_link(link, "next") == "https://api.github.com/notifications?page=2"
    assert github.text_of_link(link, "prev") == ""


@pytest.mark.contract("LIF-06", "LIF-12")
def test_lif_12_a_strangers_thousand_issues_buy_what_the_rule_allows_and_lose_no_event(
    world: World, tenant: Tenant, worker_here: Box
) -> None:
    shop = an_automation_shop(tenant)
    source = passes(a_github(), hours=2)
    shop.rule(source="github", runs_per_hour=3, usd_per_day="1.0000", thread_runs_per_hour=1)
    without_comments = {"title": "A door", "url": None, "latest_comment_url": None, "type": "Issue"}
    for number in range(1_000):
        world.github.happens(str(number), at=clock.now() - timedelta(seconds=number), subject=without_comments)
    for _ in range(10):
        if "sweep" in row(source).state or not events(source):
            look(world, source)
    assert len(events(source)) == 1_000
    for _ in range(3):
        shop.turn()
    assert Run.objects.count() == 3
    left = AutomationEvent.objects.filter(source=source).exclude(status=EventStatus.COMPLETED).count()
    assert left == 997  # they wait; a person hears of it, once
    assert AutomationMessage.objects.filter(kind=MessageKind.ALARM).count() == 1


def test_lif_06_a_sweep_asks_again_for_the_hour_before_the_last_one(world: World) -> None:
    source = passes(look(world, a_github()), hours=3)
    source = passes(look(world, source), minutes=20)
    look(world, source)
    asked = [one for one in notifications(world) if one.get("all") == "true"]
    since = datetime.fromisoformat(asked[-1]["since"])
    before = datetime.fromisoformat(source.cursor) - timedelta(hours=1, seconds=1)
    assert (len(asked), since) == (3, before.replace(microsecond=0))
