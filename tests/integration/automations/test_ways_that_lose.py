"""What ADR 62 to 65 depart from, built as the lifecycle document has it and let loose on the same servers: each loses.

Beside each stands our own way, on the same happenings.
"""

import json
import time
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from dpp_project import clock
from ops.automations.messages import message_steps
from ops.automations.messages import slack as slack_messages
from ops.automations.messages.sending import CHANNELS, MessageSender
from ops.automations.models import AutomationMessage
from ops.automations.sources import github, jira
from ops.automations.sources.asking import Asker
from ops.automations.states import MessageKind
from tests.gear.builders.automation_world import (
    World,
    _hosting,
    a_github,
    a_hook,
    a_jira,
    a_message,
    a_slack,
    events,
    look,
    message,
    passes,
    send,
    waits,
    world,
)
from tests.gear.servers.services.github import BASE, TOKEN
from tests.gear.servers.services.jira import EMAIL
from tests.gear.servers.services.jira import TOKEN as JIRA_TOKEN
from tests.gear.servers.services.slack import CHANNEL
from tests.gear.servers.services.slack import TOKEN as SLACK_TOKEN
from tests.integration.automations.test_signed_hooks import OPENED, by_github, of_github

__all__ = ["_hosting", "world"]

pytestmark = pytest.mark.django_db(transaction=True)


def asker(world: World, base: str, headers: Any) -> Asker:
    return Asker(world.outside, base, headers, caller="test", until=time.monotonic() + 60)


class ByValidator:
    """GitHub polled with its ETag, and what a 200 brings emitted."""

    def __init__(self, world: World) -> None:
        self._asker = asker(world, BASE, github.github_authorization(TOKEN))
        self._etag = ""
        self.emitted: list[str] = []

    def poll(self) -> None:
        validators = [("if-none-match", self._etag)] if self._etag else []
        answer = self._asker.ask("/notifications", headers=validators)
        if answer.status == 200:
            self._etag = answer.header("etag")
            self.emitted += [one["id"] for one in answer.json()]


@pytest.mark.contract("LIF-06")
def test_lif_06_adr_62_a_validator_alone_emits_twice_and_loses(world: World) -> None:
    source, naive = a_github(), ByValidator(world)
    for thread in ("1", "2"):
        world.github.happens(thread)
        naive.poll()
        look(world, source)
    world.github.sticks = True
    world.github.happens("3")
    for _ in range(5):
        naive.poll()
    assert naive.emitted == ["1", "2", "1"]  # "1" twice, since a 200 brings all; "3" never, since the 304 sticks
    passes(source, minutes=16)
    look(world, source)
    assert sorted(event.thread for event in events(source)) == ["1", "2", "3"]


class ByLastCheck:
    """Jira searched for what was updated since the last check."""

    def __init__(self, world: World, *, bare: bool) -> None:
        self._asker = asker(world, "https://acme.atlassian.net", jira.jira_authorization(EMAIL, JIRA_TOKEN))
        self._bare = bare
        self.last_check = clock.now() - timedelta(minutes=1)
        self.emitted: list[str] = []

    def poll(self) -> None:
        now = clock.now()
        minutes = int((now - self.last_check).total_seconds() // 60) + 1
        since = f'"{self.last_check:%Y-%m-%d %H:%M}"' if self._bare else f"-{minutes}m"
        page = self._asker.ask(
            jira.SEARCH, method="POST", body={"jql": f"updated >= {since} ORDER BY updated", "fields": ["updated"]}
        )
        self.emitted += [f"{one['id']}:{one['fields']['updated']}" for one in page.json()["issues"]]
        self.last_check = now


@pytest.mark.contract("LIF-06")
def test_lif_06_adr_63_a_bare_date_is_read_in_another_zone_and_hides_hours(world: World) -> None:
    source, naive = a_jira(), ByLastCheck(world, bare=True)
    world.jira.updates("10001")
    naive.poll()
    assert naive.emitted == []
    look(world, source)
    assert len(events(source)) == 1


@pytest.mark.contract("LIF-06")
def test_lif_06_adr_63_an_index_that_lags_hides_an_issue_from_a_last_check(world: World) -> None:
    source, naive = passes(a_jira(), minutes=10), ByLastCheck(world, bare=False)
    with clock.use_clock(clock.FixedClock(clock.now() - timedelta(minutes=5))) as at:
        assert isinstance(at, clock.FixedClock)
        world.jira.updates("10001", lag=timedelta(minutes=5))
        naive.last_check = at.now()
        for _ in range(5):  # and at each minute again
            naive.poll()
            at.advance(seconds=60)
        naive.last_check = at.now() - timedelta(seconds=59)
        naive.poll()
        look(world, source)
    assert naive.emitted == []  # found from minute 5 on, and asked for no further back than minute 4
    assert [event.thread for event in events(source)] == ["SHOP-1"]


@pytest.mark.contract("LIF-12")
def test_lif_12_adr_64_a_delivery_id_lets_a_replay_buy_again(world: World) -> None:
    source = a_hook(secret="It's a Secret to Everybody").source
    body = json.dumps(OPENED).encode()
    ids = set()
    for delivery in ("72d3162e", "72d3162f"):  # the replayer's own; the signature holds under either
        assert of_github(x_github_delivery=delivery).status_code == 202
        ids.add((by_github(body), delivery))
    assert len(ids) == 2  # two events by (signature, delivery id)
    assert len(events(source)) == 1
    assert Client().post("/api/automations/hooks/hook", data=body, content_type="application/json").status_code == 401


def sent_then_moved(world: World, one: AutomationMessage, *, thread: str = "", dies: bool = False) -> bool:
    """Posts, then marks; whether it got as far."""
    place = slack_messages.SlackPlace(
        world.outside, "https://slack.com", SLACK_TOKEN, CHANNEL, caller="test", until=time.monotonic() + 60
    )
    said = {"channel": CHANNEL, "text": one.body} | ({"thread_ts": thread} if thread else {})
    answer = slack_messages._slack_api_answer(place, "chat.postMessage", said)
    return json.loads(answer.content)["ok"] is True and not dies


@pytest.mark.contract("LIF-11")
def test_lif_11_adr_65_sent_then_moved_posts_twice(world: World) -> None:
    a_slack()
    one = a_message()
    assert not sent_then_moved(world, one, dies=True)
    assert sent_then_moved(world, one)
    assert world.slack.texts() == ["It is done.", "It is done."]


@pytest.mark.contract("LIF-11")
def test_lif_11_adr_65_looked_up_it_stands_there_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    a_slack()
    one = a_message()
    (held,) = message_steps.claim_automation_messages(channels=CHANNELS, limit=1)
    with monkeypatch.context() as patch:
        patch.setattr(
            message_steps, "mark_message_sent", lambda *_arguments, **_options: None
        )  # it dies before its mark
        MessageSender(world.outside).send(held, until=time.monotonic() + 50)
    waits(70)
    send(world)
    assert message(one).status == "SENT"
    assert world.slack.texts() == ["It is done."]


@pytest.mark.contract("LIF-11")
def test_lif_11_adr_65_a_reply_to_a_dead_thread_stands_at_the_root_unseen(world: World) -> None:
    a_slack()
    gone = "1531420618.000100"
    one = a_message(body="Private to the thread.", thread=gone)
    assert sent_then_moved(world, one, thread=gone)  # and counts as sent
    assert world.slack.roots() == ["Private to the thread."]
    world.slack.messages[CHANNEL].clear()
    send(world)
    assert message(one).status == "FAILED"
    assert world.slack.roots() == []
    assert AutomationMessage.objects.filter(kind=MessageKind.ALARM).count() == 1
