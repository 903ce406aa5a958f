"""A person answers, in Slack or through a signed hook: once, and the former task is resumed."""

import contextlib
import json
from typing import Any

import pytest
from django.test import Client
from standardwebhooks import Webhook

from dpp_project import clock
from ops.automations.messages import message_steps
from ops.automations.models import AutomationEvent, AutomationMessage, AutomationTask, AwaitedAnswer
from ops.automations.states import MessageChannel
from ops.automations.tasks import dispatching
from runs.box.box import Box
from tenants.models import Tenant
from tests.gear.builders import automations as gear
from tests.gear.builders.automation_shop import AutomationShop, an_automation_shop
from tests.gear.builders.automation_world import (
    World,
    _hosting,
    a_crm,
    a_message,
    a_slack,
    message,
    send,
    waits,
    world,
)
from tests.gear.faults.rivals import OnAnotherConnection
from tests.gear.servers.services import slack
from tests.gear.servers.services.hosting import LOST, Asked, Mishap, Reply
from tests.gear.servers.services.slack import CHANNEL

__all__ = ["_hosting", "world"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-11")]


@pytest.fixture
def shop(tenant: Tenant, worker_here: Box) -> AutomationShop:
    """What it says goes to the Slack that the tests answer in."""
    a_slack()
    return an_automation_shop(tenant)


def posted_by_slack(body: bytes) -> Any:
    signed = slack.signed(body, at=clock.now())
    return Client().post("/api/automations/hooks/team", data=body, content_type="application/json", headers=signed)


def by_slack(body: bytes) -> Any:
    return posted_by_slack(body).json()


def asked_in_slack(world: World, shop: AutomationShop, target: str = CHANNEL) -> str:
    """A rule's result asks; its thread in Slack."""
    shop.rule(notify={"channel": "slack", "target": target}, awaits_answers=True)
    shop.event(thread="issue-7")
    shop.turn()
    send(world)
    return str(AwaitedAnswer.objects.get().thread)


@pytest.mark.parametrize("target", [CHANNEL, f"team/{CHANNEL}"])
def test_lif_11_an_answer_in_slack_resumes_the_task_once(world: World, shop: AutomationShop, target: str) -> None:
    thread = asked_in_slack(world, shop, target)
    former = shop.only_task()
    body = slack.an_answer("Yes, open it.", thread=thread)
    assert by_slack(body) == {"outcome": "taken"}
    assert by_slack(body) == {"outcome": "taken"}  # Slack repeats it
    assert not AwaitedAnswer.objects.exists()
    dispatching.dispatch_due(limit=10)
    (later,) = AutomationTask.objects.exclude(pk=former.pk)
    assert later.resumes_id == former.pk
    event = AutomationEvent.objects.get(pk=later.event_id)
    assert event.payload["answer"] == {
        "text": "Yes, open it.",
        "actor": "UANN",
        "channel": "slack",
        "target": target,
        "thread": thread,
    }


def test_lif_11_of_two_answers_the_first_is_taken(world: World, shop: AutomationShop) -> None:
    thread = asked_in_slack(world, shop)
    by_slack(slack.an_answer("Yes.", thread=thread, event_id="Ev1"))
    assert by_slack(slack.an_answer("No.", thread=thread, event_id="Ev2")) == {"outcome": "ignored"}
    answers = [event.payload["answer"]["text"] for event in AutomationEvent.objects.filter(resumes_id__isnull=False)]
    assert answers == ["Yes."]


def dies(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_lif_11_an_answer_that_comes_before_its_questions_mark_is_heard_when_it_is_repeated(
    world: World, shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender died behind its post: the question stands in Slack, and which thread is its is not known yet."""
    shop.rule(name="chat", source="team")
    shop.rule(notify={"channel": "slack", "target": CHANNEL}, awaits_answers=True)
    shop.event(thread="issue-7")
    shop.turn()
    with monkeypatch.context() as patch:
        patch.setattr(message_steps, "mark_message_sent", dies)
        with pytest.raises(KeyboardInterrupt):
            send(world)
    heard = AutomationEvent.objects.filter(source__name="team").order_by("event_pk")
    (posted,) = world.slack.messages[CHANNEL]
    answer = slack.an_answer("Yes.", thread=posted["ts"])
    refused = posted_by_slack(answer)
    assert (refused.status_code, refused.headers["Retry-After"], heard.count()) == (503, "30", 0)
    assert by_slack(slack.an_answer("Hello.", thread="1531420618.000100", event_id="Ev0")) == {"outcome": "taken"}
    waits(70)
    send(world)
    for _ in range(2):
        assert by_slack(answer) == {"outcome": "taken"}
    former = shop.only_task()
    assert list(heard.values_list("event_id", "resumes_id")) == [("Ev0", None), ("Ev1", former.pk)]
    dispatching.dispatch_due(limit=10)
    assert AutomationTask.objects.get(resumes=former).rule_id == former.rule_id


@pytest.mark.parametrize("more", [{"bot_id": "BBOT"}, {"subtype": "message_changed"}, {"channel": "C0OTHER"}])
def test_lif_11_what_is_no_persons_answer_there_resumes_nothing(
    world: World, shop: AutomationShop, more: dict[str, Any]
) -> None:
    thread = asked_in_slack(world, shop)
    assert by_slack(slack.an_answer("Yes.", thread=thread, **more)) == {"outcome": "ignored"}
    assert AwaitedAnswer.objects.exists()


def test_lif_11_an_answer_nobody_signed_resumes_nothing(world: World, shop: AutomationShop) -> None:
    thread = asked_in_slack(world, shop)
    answer = Client().post(
        "/api/automations/hooks/team", data=slack.an_answer("Yes.", thread=thread), content_type="application/json"
    )
    assert answer.status_code == 401
    assert AwaitedAnswer.objects.exists()


def by_hook(secret: str, document: Any, webhook_id: str = "msg_a1") -> Any:
    body = json.dumps(document)
    headers = {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(clock.now().timestamp())),
        "webhook-signature": Webhook(secret).sign(webhook_id, clock.now(), body),
    }
    answer = Client().post(
        "/api/automations/hooks/crm", data=body.encode(), content_type="application/json", headers=headers
    )
    return answer.json()


def test_lif_11_an_answer_through_a_signed_hook_resumes_the_task_once(world: World, shop: AutomationShop) -> None:
    made = a_crm()
    shop.rule(notify={"channel": "webhook", "target": "crm"}, awaits_answers=True)
    shop.event()
    shop.turn()
    send(world)
    thread = world.crm.asked[0].said["data"]["thread"]
    answer = {"type": "answer", "data": {"thread": thread, "text": "Yes.", "actor": "ann"}}
    assert by_hook(made.secret, answer) == {"outcome": "taken"}
    assert by_hook(made.secret, answer) == {"outcome": "taken"}
    assert by_hook(made.secret, answer, "msg_a2") == {"outcome": "ignored"}
    dispatching.dispatch_due(limit=10)
    assert AutomationTask.objects.filter(resumes__isnull=False).count() == 1


@pytest.mark.parametrize("mishap", [None, LOST, Mishap(Reply(503).written(), is_done=True), "killed"])
def test_lif_11_who_answers_before_its_own_2xx_is_heard_once(
    world: World, shop: AutomationShop, monkeypatch: pytest.MonkeyPatch, mishap: Mishap | str | None
) -> None:
    """Also where that never comes, or nobody is left to hear it, so that the question is sent, and answered, again."""
    made, said = a_crm(), list[Any]()
    shop.rule(notify={"channel": "webhook", "target": "crm"}, awaits_answers=True)
    shop.event()
    shop.turn()
    thread = shop.only_task().pk.hex
    answer = {"type": "answer", "data": {"thread": thread, "text": "Yes.", "actor": "ann"}}

    def answers(asked: Asked) -> Reply:
        assert asked.said["data"]["thread"] == thread
        said.append(OnAnotherConnection(lambda: by_hook(made.secret, answer)).answer())
        return Reply(204)

    monkeypatch.setattr(world.crm, "answer", answers)
    if isinstance(mishap, Mishap):
        world.crm.befalls(mishap)
    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        if mishap == "killed":
            patch.setattr(message_steps, "mark_message_sent", dies)
        send(world)
    waits(120)
    send(world)
    assert said == [{"outcome": "taken"}] * (1 if mishap is None else 2)
    assert AutomationMessage.objects.get().status == "SENT"
    assert by_hook(made.secret, answer, "msg_a2") == {"outcome": "ignored"}
    dispatching.dispatch_due(limit=10)
    assert AutomationTask.objects.filter(resumes__isnull=False).count() == 1


def test_lif_11_one_hook_source_cannot_answer_for_another(world: World) -> None:
    source = gear.source("hooks")
    task = AutomationTask.objects.get(pk=gear.bare_task(gear.event(source), gear.bare_rule(source)))
    a_crm("other")
    one = a_message("other", channel=MessageChannel.WEBHOOK, task=task, awaits_answer=True)
    send(world)
    answer = {"type": "answer", "data": {"thread": message(one).thread, "text": "Yes.", "actor": "eve"}}
    assert by_hook(a_crm().secret, answer) == {"outcome": "ignored"}
    assert AwaitedAnswer.objects.get().target == "other"
