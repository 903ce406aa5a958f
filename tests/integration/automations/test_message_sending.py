"""Messages on their way: each arrives once, whatever is answered, and whoever dies."""

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.db.models import F
from django.db.models.functions import Now
from standardwebhooks import Webhook

from dpp_project.process_env import ENV
from dpp_project.stores.postgres import database_now
from ops.automations.messages import message_steps, sending, slack
from ops.automations.messages.sending import CHANNELS, MessageSender
from ops.automations.models import (
    AutomationMessage,
    AutomationSource,
    AutomationTask,
    AwaitedAnswer,
    ThreadMapping,
)
from ops.automations.notify import telling
from ops.automations.states import MessageChannel, MessageKind, MessageStatus
from tenants.webhooks.dispatch import delivery
from tests.gear.builders import automations as gear
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
from tests.gear.servers.services.hosting import CUT, GARBAGE, HANGS, LOST, Mishap, refuses
from tests.gear.servers.services.slack import CHANNEL
from tests.gear.waiting import wait_until

__all__ = ["_hosting", "world"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-11")]
POST = "/api/chat.postMessage"


def posts(world: World) -> int:
    return world.slack.paths().count(POST)


def a_task_of(name: str = "hooks") -> Any:
    source = gear.source(name)
    rule = gear.bare_rule(source)
    return AutomationTask.objects.get(pk=gear.bare_task(gear.event(source), rule))


def test_lif_11_a_message_is_posted_with_our_id_and_begins_a_thread(world: World) -> None:
    a_slack()
    task = a_task_of()
    one = a_message(task=task)
    send(world)
    after = message(one)
    (posted,) = world.slack.messages[CHANNEL]
    assert (after.status, after.external_id, after.thread) == (MessageStatus.SENT, posted["ts"], posted["ts"])
    assert posted["metadata"]["event_payload"] == {"message_id": str(one.pk), "number": one.number}
    assert ThreadMapping.objects.get().thread == posted["ts"]
    later = a_message(task=task, body="More.")
    send(world)
    assert message(later).thread == posted["ts"]
    assert world.slack.roots() == ["It is done."]


def test_lif_11_a_strangers_words_call_no_channel(world: World) -> None:
    a_slack()
    a_message(body="<!channel> see <https://evil.example|here> & <@U1>")
    send(world)
    assert world.slack.texts() == ["&lt;!channel&gt; see &lt;https://evil.example|here&gt; &amp; &lt;@U1&gt;"]


def test_lif_11_a_long_text_is_cut_between_characters() -> None:
    cut = slack.escaped_for_slack("&" * 30_000)
    assert len(cut) <= slack.TEXT_LENGTH_MAX + 1
    assert cut.removesuffix("…").replace("&amp;", "") == ""


@pytest.mark.parametrize("mishap", [LOST, Mishap(GARBAGE.answer, is_done=True), refuses(500)])
def test_lif_11_an_unclear_answer_is_looked_up_before_anything_is_repeated(world: World, mishap: Mishap) -> None:
    """Posted, and its answer lost; or not posted at all: nobody can tell by the answer."""
    a_slack()
    one = a_message()
    world.slack.befalls(mishap, at=POST)
    send(world)
    assert (message(one).status, message(one).unclear) == (MessageStatus.PENDING, True)
    assert send(world) == []  # a post still under way has time to show itself
    waits(60)
    send(world)
    assert message(one).status == MessageStatus.SENT
    assert world.slack.texts() == ["It is done."]
    looked = world.slack.paths().index("/api/conversations.history")
    assert POST not in world.slack.paths()[looked:] or not mishap.is_done


def test_lif_11_what_cannot_be_looked_up_is_never_repeated(world: World) -> None:
    a_slack()
    one = a_message()
    world.slack.befalls(LOST, at=POST)
    send(world)
    for _ in range(6):
        world.slack.befalls(refuses(200, {"ok": False, "error": "missing_scope"}), at="/api/conversations.history")
        waits(4_000)
        send(world)
        assert message(one).last_error == "not looked up: missing_scope"
    assert posts(world) == 1
    waits(86_400)
    world.slack.befalls(refuses(200, {"ok": False, "error": "missing_scope"}), at="/api/conversations.history")
    send(world)
    assert message(one).status == MessageStatus.FAILED
    assert world.slack.texts() == ["It is done."]


def test_lif_11_slack_answers_429_for_an_hour_and_every_message_arrives_once(world: World) -> None:
    a_slack()
    bodies = [f"Message {number}." for number in range(20)]
    for body in bodies:
        a_message(body=body)
    world.slack.limited_seconds = 900
    for _ in range(4):
        send(world, MessageSender(world.outside))
        waits(905)
    # One question for each quarter of an hour: the first answer was for all of them.
    assert posts(world) == 4
    assert world.slack.texts() == []
    world.slack.limited_seconds = 0
    for _ in range(2):
        send(world)
        waits(3_700)
    assert sorted(world.slack.texts()) == sorted(bodies)
    assert set(AutomationMessage.objects.values_list("status", flat=True)) == {MessageStatus.SENT}


@pytest.mark.parametrize("hindrance", ["paused", "no secret", "no source"])
def test_lif_11_what_may_have_been_posted_stays_unclear_through_a_turn_that_asks_nothing(
    world: World, hindrance: str
) -> None:
    source = a_slack()
    one, sealed = a_message(), AutomationSource.objects.get(pk=source.pk).sealed_secrets
    world.slack.befalls(LOST, at=POST)
    send(world)
    waits(60)
    sender = MessageSender(world.outside)
    if hindrance == "paused":
        sender._paused_until["team"] = time.monotonic() + 600
    else:
        changed = {"sealed_secrets": None} if hindrance == "no secret" else {"name": "elsewhere", "kind": "HOOK"}
        AutomationSource.objects.filter(pk=source.pk).update(**changed)
    send(world, sender)
    assert (message(one).status, message(one).unclear) == (MessageStatus.PENDING, True)
    AutomationSource.objects.filter(pk=source.pk).update(sealed_secrets=sealed, name="team", kind="SLACK")
    waits(4_000)
    send(world)
    assert message(one).status == MessageStatus.SENT
    assert world.slack.texts() == ["It is done."]


@pytest.mark.parametrize("when", ["before", "after"])
def test_lif_11_killed_between_post_and_mark_it_arrives_once(
    world: World, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_slack()
    one = a_message()

    def dies(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*((slack, "post_to_slack") if when == "before" else (message_steps, "mark_message_sent")), dies)
        with pytest.raises(KeyboardInterrupt):
            send(world)
    assert send(world) == []  # its lease stands
    waits(70)
    send(world)
    assert message(one).status == MessageStatus.SENT
    assert world.slack.texts() == ["It is done."]


def test_lif_11_a_sender_that_was_frozen_does_not_post_behind_its_lease(world: World) -> None:
    a_slack()
    one = a_message()
    (frozen,) = message_steps.claim_automation_messages(channels=CHANNELS, limit=1)
    waits(70)
    send(world)
    MessageSender(world.outside).send(frozen, until=time.monotonic() - 10)
    assert message(one).status == MessageStatus.SENT
    assert world.slack.texts() == ["It is done."]


def test_lif_11_a_post_that_could_outlive_its_lease_is_not_begun(world: World) -> None:
    """By a slow lookup, or a machine that stood still: the next sender must find what was posted."""
    a_slack()
    one = a_message()
    (held,) = message_steps.claim_automation_messages(channels=CHANNELS, limit=1)
    MessageSender(world.outside).send(held, until=time.monotonic() + slack.ANSWER_SECONDS - 1)
    assert posts(world) == 0
    assert (message(one).last_error, message(one).unclear) == ("no time left", False)


def test_lif_11_a_thread_that_is_gone_is_told_and_nothing_stays_at_the_root_unseen(world: World) -> None:
    a_slack()
    task = a_task_of()
    first = a_message(task=task)
    send(world)
    later = a_message(task=task, body="The result, with its details.")
    world.slack.drop(message(first).thread)
    send(world)
    after = message(later)
    assert (after.status, after.last_error) == (MessageStatus.FAILED, "THREAD_GONE")
    assert world.slack.texts() == []  # taken back
    alarm = AutomationMessage.objects.get(kind=MessageKind.ALARM)
    assert later.number in alarm.body
    send(world)
    assert world.slack.roots() == [alarm.body]
    again = a_message(task=task, body="More.")
    assert again.thread == ""  # it begins a thread
    send(world)
    assert message(again).status == MessageStatus.SENT


def test_lif_11_what_cannot_be_taken_back_from_the_root_is_named(world: World) -> None:
    a_slack()
    one = a_message(thread="1531420618.000100")
    world.slack.befalls(refuses(200, {"ok": False, "error": "cant_delete_message"}), at="/api/chat.delete")
    send(world)
    stands = world.slack.messages[CHANNEL][0]["ts"]
    assert message(one).last_error == f"THREAD_GONE {stands}"
    assert stands in AutomationMessage.objects.get(kind=MessageKind.ALARM).body


@pytest.mark.parametrize(("error", "status"), [("channel_not_found", "FAILED"), ("not_in_channel", "PENDING")])
def test_lif_11_a_definite_refusal_ends_or_is_tried_again(world: World, error: str, status: str) -> None:
    a_slack()
    one = a_message()
    world.slack.refusal = error
    send(world)
    after = message(one)
    assert (after.status, after.last_error, after.unclear) == (status, error, False)
    world.slack.refusal = ""
    waits(60)
    send(world)
    assert world.slack.texts() == ([] if status == "FAILED" else ["It is done."])


def test_lif_11_an_error_that_slack_does_not_name_may_have_posted_it(world: World) -> None:
    a_slack()
    one = a_message()
    world.slack.befalls(Mishap(refuses(200, {"ok": False, "error": "fatal_error"}).answer, is_done=True), at=POST)
    send(world)
    assert message(one).unclear
    waits(60)
    send(world)
    assert world.slack.texts() == ["It is done."]


def test_lif_11_what_has_not_arrived_after_24_hours_has_failed_and_is_told(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    a_slack()
    one = a_message()
    world.slack.befalls(CUT, refuses(401), at="/")
    world.slack.refusal = "account_inactive"
    for _ in range(40):
        send(world)
        waits(3_700)
    after = message(one)
    assert (after.status, after.last_error) == (
        MessageStatus.FAILED,
        "not sent within 24 hours: account_inactive",
    )
    assert after.ended_at is not None
    assert any("a message was not sent" in str(record.msg) for record in caplog.records)


@pytest.mark.parametrize("mishap", [refuses(401), refuses(500)], ids=["certain", "unclear"])
@pytest.mark.contract("LIF-02")
def test_lif_02_a_message_has_24_hours_and_its_end_is_said_to_the_platform(
    world: World, mishap: Mishap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "ENV", ENV.model_copy(update={"DPP_AUTOMATIONS_NOTIFY": "webhook:crm"}))
    a_slack()
    one = a_message()
    for hours, status in ((23.9, MessageStatus.PENDING), (24.0, MessageStatus.FAILED)):
        (held,) = message_steps.claim_automation_messages(channels=CHANNELS, limit=5)
        held.message.created_at = database_now() - timedelta(hours=hours)
        world.slack.befalls(mishap, at="/")
        MessageSender(world.outside).send(held, until=time.monotonic() + 50)
        assert message(one).status == status
        assert AutomationMessage.objects.filter(kind="ALARM").count() == (status == MessageStatus.FAILED)
        waits(4_000)
    said = AutomationMessage.objects.get(kind="ALARM")
    assert (said.channel, said.target, said.key) == ("webhook", "crm", f"not-sent:{one.pk}")
    assert said.body.startswith(f"{one.number} to slack {one.target} was not sent: ")


@pytest.mark.contract("LIF-02")
def test_lif_02_a_death_at_the_alarm_leaves_no_message_that_failed_unsaid(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "ENV", ENV.model_copy(update={"DPP_AUTOMATIONS_NOTIFY": "webhook:crm"}))
    a_slack()
    one = a_message()
    world.slack.refusal = "account_inactive"
    waits(86_400)

    def dies(**_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(telling, "tell_platform", dies)
        with pytest.raises(KeyboardInterrupt):
            send(world)
    assert message(one).status == MessageStatus.PENDING
    waits(70)
    send(world)
    assert message(one).status == MessageStatus.FAILED
    assert AutomationMessage.objects.get(kind="ALARM").key == f"not-sent:{one.pk}"


def test_lif_11_a_target_that_names_no_source_waits_for_a_person(world: World) -> None:
    one = a_message()
    send(world)
    assert message(one).status == MessageStatus.PENDING
    assert message(one).last_error.startswith("TARGET there is no Slack source yet")
    a_slack()
    waits(10)
    send(world)
    assert message(one).status == MessageStatus.SENT


# Webhooks.


def test_lif_11_a_webhook_is_signed_and_verified_by_the_public_library(world: World) -> None:
    made = a_crm()
    one = a_message("crm", channel=MessageChannel.WEBHOOK, awaits_answer=True, task=a_task_of())
    assert one.task_id is not None
    send(world)
    (taken,) = world.crm.asked
    said = Webhook(made.secret).verify(taken.body, dict(taken.headers))
    assert said["type"] == "automation.message"
    assert said["data"] == {
        "awaits_answer": True,
        "kind": "RESULT",
        "message": one.number,
        "task": str(one.task_id),
        "text": "It is done.",
        "thread": one.task_id.hex,
    }
    assert message(one).status == MessageStatus.SENT
    assert AwaitedAnswer.objects.get().thread == one.task_id.hex


@pytest.mark.parametrize("mishap", [LOST, refuses(503), refuses(429, None, retry_after="30"), HANGS])
def test_lif_11_a_webhook_comes_again_under_the_same_id(
    world: World, mishap: Mishap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "WHOLE_SECONDS", 0.5)
    a_crm()
    one = a_message("crm", channel=MessageChannel.WEBHOOK)
    world.crm.befalls(mishap)
    send(world)
    assert message(one).status == MessageStatus.PENDING
    waits(120)
    send(world)
    assert message(one).status == MessageStatus.SENT
    assert len({taken.headers["webhook-id"] for taken in world.crm.asked}) == 1
    assert len({str(taken.said["data"]) for taken in world.crm.asked}) == 1


def test_lif_11_a_webhook_that_is_gone_ends(world: World) -> None:
    a_crm()
    one = a_message("crm", channel=MessageChannel.WEBHOOK, awaits_answer=True, task=a_task_of())
    world.crm.befalls(refuses(410))
    send(world)
    assert (message(one).status, message(one).last_error) == (MessageStatus.FAILED, "410")
    assert not AwaitedAnswer.objects.exists()


# The loop.


def test_lif_11_a_target_that_hangs_holds_up_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "WHOLE_SECONDS", 5.0)
    a_crm()
    a_slack()
    for _ in range(100):
        a_message("crm", channel=MessageChannel.WEBHOOK)
    world.crm.befalls(HANGS)
    one = a_message()
    stop = threading.Event()

    def run() -> None:
        try:
            MessageSender(world.outside).run(stop)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: message(one).status == MessageStatus.SENT, seconds=4.0, what="the other target's message")
        assert len(world.crm.asked) == 1
    finally:
        stop.set()
        world.crm.let_go.set()
        thread.join(20)
    assert not thread.is_alive()


def test_lif_11_two_senders_at_once_post_each_message_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "CHANNEL_PACE_SECONDS", 0.0)
    a_slack()
    bodies = [f"Message {number}." for number in range(24)]
    for body in bodies:
        a_message(body=body)
    senders = [MessageSender(world.outside) for _ in range(3)]

    def all_are_sent() -> bool:
        for sender in senders:
            sender.turn()
        return not AutomationMessage.objects.exclude(status=MessageStatus.SENT).exists()

    wait_until(all_are_sent, seconds=60, what="24 messages to be sent")
    for sender in senders:
        sender.end()
    assert sorted(world.slack.texts()) == sorted(bodies)


def test_lif_11_what_is_given_back_counts_no_attempt(world: World) -> None:
    a_slack()
    one = a_message()
    (held,) = message_steps.claim_automation_messages(channels=CHANNELS, limit=1)
    sending._give_back([held])
    after = message(one)
    assert (after.attempts, after.lease_owner, after.unclear) == (0, None, False)
    assert AutomationMessage.objects.filter(next_attempt_at__lte=Now(), attempts=F("attempts")).count() == 1
