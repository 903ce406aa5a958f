"""Sources with the services that they look at, on loopback; looks and sends made by hand, one at a time."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from ops.automations.messages import message_steps
from ops.automations.messages.sending import CHANNELS, SENT_WITHIN_SECONDS, MessageSender
from ops.automations.models import AutomationEvent, AutomationMessage, AutomationSource, SeenEvent
from ops.automations.notify.messaging import queue_message
from ops.automations.reach import Outside
from ops.automations.sources import acts, looks, source_marks
from ops.automations.sources.acts import Changed
from ops.automations.states import MessageChannel, SourceKind
from tests.gear.servers.services import github, jira, slack
from tests.gear.servers.services.hosting import CRM, GITHUB, JIRA, SLACK, Asked, Hosting, Reply, Service

BASES = {SourceKind.JIRA: f"https://{JIRA}", SourceKind.GITHUB: f"https://{GITHUB}"}
ACTOR = "operator:ada"


class Crm(Service):
    """A receiver of webhooks. It answers 204."""

    def answer(self, asked: Asked) -> Reply:
        return Reply(204)


@dataclass(frozen=True)
class World:
    hosting: Hosting
    github: github.GitHub
    jira: jira.Jira
    slack: slack.Slack
    crm: Crm
    outside: Outside


@pytest.fixture(scope="session")
def _hosting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosting]:
    made = Hosting(tmp_path_factory.mktemp("services"))
    yield made
    made.close()


@pytest.fixture
def world(_hosting: Hosting) -> Iterator[World]:
    """Services without a past."""
    made = World(_hosting, github.GitHub(), jira.Jira(), slack.Slack(), Crm(), _hosting.outside())
    _hosting.services = {GITHUB: made.github, JIRA: made.jira, SLACK: made.slack, CRM: made.crm}
    yield made
    _hosting.let_all_go()


def a_github(name: str = "github", **more: Any) -> AutomationSource:
    return made(
        acts.create_source(
            **{"name": name, "kind": SourceKind.GITHUB, "settings": {}, "token": github.TOKEN} | _by(more)
        )
    )


def a_jira(name: str = "jira", **settings: Any) -> AutomationSource:
    said = {"base_url": BASES[SourceKind.JIRA], "email": jira.EMAIL, "jql": "project = SHOP"} | settings
    return made(acts.create_source(name=name, kind=SourceKind.JIRA, settings=said, token=jira.TOKEN, actor=ACTOR))


def a_schedule(name: str = "nightly", *, at: str = "09:00", zone: str = "Europe/Berlin") -> AutomationSource:
    settings = {"at": at, "zone": zone}
    return made(acts.create_source(name=name, kind=SourceKind.SCHEDULE, settings=settings, actor=ACTOR))


def a_hook(name: str = "hook", *, form: str = "github", secret: str = "", **settings: Any) -> Changed:
    said = {"form": form} | settings
    answer = acts.create_source(name=name, kind=SourceKind.HOOK, settings=said, signing_secret=secret, actor=ACTOR)
    assert isinstance(answer, Changed), answer
    return answer


def a_slack(name: str = "team") -> AutomationSource:
    return made(
        acts.create_source(
            name=name,
            kind=SourceKind.SLACK,
            settings={},
            token=slack.TOKEN,
            signing_secret=slack.SIGNING_SECRET,
            actor=ACTOR,
        )
    )


def a_crm(name: str = "crm", **settings: Any) -> Changed:
    """A hook source that messages go to."""
    return a_hook(name, form="standard", url=f"https://{CRM}/messages", **settings)


def _by(more: dict[str, Any]) -> dict[str, Any]:
    return {"actor": ACTOR} | more


def made(answer: object) -> AutomationSource:
    assert isinstance(answer, Changed), answer
    return answer.source


def row(source: AutomationSource) -> AutomationSource:
    return AutomationSource.objects.get(pk=source.pk)


def look(world: World, source: AutomationSource) -> AutomationSource:
    """Its next look, now; as it stands afterwards."""
    AutomationSource.objects.filter(pk=source.pk).update(next_look_at=Now())
    (claimed,) = [
        one for one in source_marks.claim_source_looks(kinds=[source.kind], limit=10) if one.source.pk == source.pk
    ]
    looks.look_at(claimed, world.outside)
    return row(source)


def passes(source: AutomationSource, **time_that: float) -> AutomationSource:
    """So much time has passed since everything that the source remembers."""
    ago = timedelta(**time_that)
    found = row(source)
    state = {name: _earlier(value, ago) for name, value in found.state.items()}
    AutomationSource.objects.filter(pk=source.pk).update(
        created_at=F("created_at") - ago,
        looked_at=F("looked_at") - ago,
        next_look_at=F("next_look_at") - ago,
        cursor=_earlier(found.cursor, ago),
        state=state,
    )
    return row(source)


def days_pass(world: World, source: AutomationSource, days: int) -> None:
    """For GitHub's notifications and Jira's issues too, for what was seen of them, and for their events that ended.

    A service goes on listing them. Their ids hold their moment.
    """
    passes(source, days=days)
    ago = timedelta(days=days)
    world.github.threads = _earlier(world.github.threads, ago)
    world.github.comments = _earlier(world.github.comments, ago)
    world.jira.issues = _earlier(world.jira.issues, ago)
    world.jira.indexed = _earlier(world.jira.indexed, ago)
    for seen in SeenEvent.objects.filter(source=source):
        SeenEvent.objects.filter(pk=seen.pk).update(event_id=_id_earlier(seen.event_id, ago), at=seen.at - ago)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # its guards let nobody change what it was
        for event in events(source):
            AutomationEvent.objects.filter(pk=event.pk).update(
                event_id=_id_earlier(event.event_id, ago),
                occurred_at=event.occurred_at - ago,
                seen_at=event.seen_at - ago,
                completed_at=None if event.completed_at is None else event.completed_at - ago,
            )


def _id_earlier(event_id: str, ago: timedelta) -> str:
    thing, _, at = event_id.partition(":")
    return f"{thing}:{_earlier(at, ago)}"


def _earlier(value: Any, ago: timedelta) -> Any:
    if isinstance(value, dict):
        return {name: _earlier(one, ago) for name, one in value.items()}
    if isinstance(value, list):
        return [_earlier(one, ago) for one in value]
    try:
        return (datetime.fromisoformat(value) - ago).isoformat()
    except (TypeError, ValueError):
        return value


def events(source: AutomationSource) -> list[AutomationEvent]:
    return list(AutomationEvent.objects.filter(source=source).order_by("event_pk"))


def actors(source: AutomationSource) -> list[str]:
    return [event.actor for event in events(source)]


# Messages.


def a_message(target: str = slack.CHANNEL, *, body: str = "It is done.", **more: Any) -> AutomationMessage:
    channel = more.pop("channel", MessageChannel.SLACK)
    return queue_message(channel=channel, target=target, body=body, **more)


def send(world: World, sender: MessageSender | None = None) -> list[AutomationMessage]:
    """All that is due now, one after the other; as they stand afterwards."""
    sender = sender or MessageSender(world.outside)
    held = message_steps.claim_automation_messages(channels=CHANNELS, limit=1_000)
    for one in sorted(held, key=lambda claimed: claimed.message.pk):
        sender.send(one, until=time.monotonic() + SENT_WITHIN_SECONDS)
    return [message(one.message) for one in held]


def message(one: AutomationMessage) -> AutomationMessage:
    return AutomationMessage.objects.get(pk=one.pk)


def waits(seconds: float) -> None:
    """So much time has passed for every message."""
    ago = timedelta(seconds=seconds)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # its guards let nobody change when it was made
        AutomationMessage.objects.update(
            created_at=F("created_at") - ago,
            next_attempt_at=F("next_attempt_at") - ago,
            lease_until=F("lease_until") - ago,
        )
