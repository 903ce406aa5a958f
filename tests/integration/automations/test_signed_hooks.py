"""POST /api/automations/hooks/{source}: who may say that something happened, and how often it counts."""

import base64
import hmac
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from standardwebhooks import Webhook

from dpp_project import clock
from ops.automations.messages import webhook
from ops.automations.models import AutomationEvent, AutomationSource, SeenEvent
from ops.automations.sources import acts, credentials
from ops.automations.sources.acts import Changed
from ops.automations.states import MessageChannel
from tests.gear.builders import automations as gear
from tests.gear.builders.automation_world import ACTOR, a_crm, a_github, a_hook, a_message, a_slack, events, row
from tests.gear.servers.services import slack

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-06", "LIF-12")]

SECRET = "It's a Secret to Everybody"
OPENED = {
    "action": "opened",
    "issue": {"number": 12, "title": "A door"},
    "repository": {"full_name": "acme/shop"},
    "sender": {"login": "octocat"},
}


def post(name: str, body: bytes, **headers: str) -> Any:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return Client().post(f"/api/automations/hooks/{name}", data=body, content_type="application/json", headers=named)


def by_github(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.digest(secret.encode(), body, "sha256").hex()


def of_github(document: Any = OPENED, *, name: str = "hook", secret: str = SECRET, **headers: str) -> Any:
    body = json.dumps(document).encode()
    return post(name, body, x_hub_signature_256=by_github(body, secret), x_github_event="issues", **headers)


def of_standard(secret: str, document: Any, *, webhook_id: str = "msg_1", at: datetime | None = None) -> Any:
    at, body = at or clock.now(), json.dumps(document)
    return post(
        "hook",
        body.encode(),
        webhook_id=webhook_id,
        webhook_timestamp=str(int(at.timestamp())),
        webhook_signature=Webhook(secret).sign(webhook_id, at, body),
    )


def said(answer: Any) -> tuple[int, dict[str, Any]]:
    """But for what each answer has of its own."""
    return answer.status_code, json.loads(answer.content) | {"trace_id": "", "instance": ""}


def test_lif_06_what_github_signed_becomes_an_event() -> None:
    source = a_hook(secret=SECRET).source
    answer = of_github()
    assert (answer.status_code, answer.json()) == (202, {"outcome": "taken"})
    (event,) = events(source)
    assert (event.thread, event.actor) == ("acme/shop#12", "octocat")
    assert event.payload == {"type": "hook", "event": "issues", "body": OPENED}


def test_lif_12_a_replayed_body_buys_nothing_under_any_delivery_id() -> None:
    source = a_hook(secret=SECRET).source
    first = of_github(x_github_delivery="1")
    again = [of_github(x_github_delivery=str(number)) for number in range(2, 6)]
    assert {(one.status_code, one.content) for one in again} == {(first.status_code, first.content)}
    assert len(events(source)) == 1


def test_lif_12_a_replay_is_refused_after_completed_was_cleared() -> None:
    source = a_hook(secret=SECRET).source
    of_github()
    AutomationEvent.objects.all().delete()
    assert of_github().status_code == 202
    assert events(source) == []


def test_lif_12_our_own_message_that_is_sent_back_starts_nothing() -> None:
    """The secret of a hook that messages go to signs both ways."""
    made = a_crm("hook")
    answer = of_standard(made.secret, json.loads(webhook.body_of(a_message("hook", channel=MessageChannel.WEBHOOK))))
    assert (answer.status_code, answer.json()) == (200, {"outcome": "ignored"})
    assert events(made.source) == []


def test_lif_12_a_standard_webhook_counts_once_by_its_signed_id() -> None:
    made = a_hook(form="standard")
    assert of_standard(made.secret, {"a": 1}).status_code == 202
    assert of_standard(made.secret, {"a": 2}).status_code == 202
    assert [event.payload["body"] for event in events(made.source)] == [{"a": 1}]
    of_standard(made.secret, {"a": 3}, webhook_id="msg_2")
    assert len(events(made.source)) == 2


def wrong_ways() -> dict[str, Any]:
    """Every wrong reason. All sources but `nobody` are there."""
    body, old = json.dumps(OPENED).encode(), clock.now() - timedelta(minutes=6)
    standard = "whsec_" + base64.b64encode(b"another secret of thirty-two bit").decode()
    return {
        "no such source": of_github(name="nobody"),
        "no source can be called so": of_github(name="%C3%A9"),
        "nor so": of_github(name="%00"),
        "another kind": of_github(name="github"),
        "no signature": post("hook", body),
        "an empty one": post("hook", body, x_hub_signature_256="sha256="),
        "a wrong secret": of_github(secret="wrong"),
        "another body": post("hook", body + b" ", x_hub_signature_256=by_github(body)),
        "no JSON, unsigned": post("hook", b"{"),
        "no body": post("hook", b""),
        "a stale one": post("team", body, **{k.replace("-", "_"): v for k, v in slack.signed(body, at=old).items()}),
        "another form": of_standard(standard, OPENED),
        "a secret that ended": of_github(secret="former"),
    }


def test_lif_06_every_wrong_reason_is_one_answer_and_changes_nothing() -> None:
    source = a_hook(secret="former").source
    acts.rotate_source_secret(source=source, actor=ACTOR, signing_secret=SECRET)
    ends = credentials.credentials_of(row(source)).signing[1].until
    assert ends is not None
    a_github()
    a_slack()
    with clock.use_clock(clock.FixedClock(datetime.fromisoformat(ends) + timedelta(seconds=1))):
        answers = {why: said(answer) for why, answer in wrong_ways().items()}
    assert len({json.dumps(one) for one in answers.values()}) == 1, answers
    status, problem = answers["no such source"]
    assert (status, problem["reason_code"]) == (401, "AUTH_INVALID")
    assert not SeenEvent.objects.exists()


def test_lif_06_two_secrets_sign_for_a_day_while_one_is_rotated() -> None:
    source = a_hook(secret="former").source
    changed = acts.rotate_source_secret(source=source, actor=ACTOR, signing_secret=SECRET)
    assert isinstance(changed, Changed)
    assert changed.secret == ""  # given, not made
    assert of_github({"n": 1}, secret="former").status_code == 202
    assert of_github({"n": 2}, secret=SECRET).status_code == 202
    assert len(events(source)) == 2


def test_lif_06_a_body_that_was_signed_and_is_no_json_says_so() -> None:
    a_hook(secret=SECRET)
    answer = post("hook", b'{"a": 1, "a": 2}', x_hub_signature_256=by_github(b'{"a": 1, "a": 2}'))
    assert (answer.status_code, answer.json()["reason_code"]) == (400, "MALFORMED_REQUEST")
    assert not SeenEvent.objects.exists()


def test_lif_06_what_postgres_cannot_hold_comes_in_without_it() -> None:
    source = a_hook(secret=SECRET).source
    body = b'{"a": "x\\u0000y", "sender": {"login": "a\\u202eb"}}'
    assert post("hook", body, x_hub_signature_256=by_github(body)).status_code == 202
    (event,) = events(source)
    assert event.payload["body"]["a"] == "x\ufffdy"
    assert event.actor == "a?b"


def test_lif_06_who_writes_of_a_character_that_cannot_be_stored_has_not_sent_it() -> None:
    source = a_hook(secret=SECRET).source
    told = OPENED | {"issue": {"number": 12, "title": "A crash at \\u0000, and at \\\\u0000"}}
    assert of_github(told).status_code == 202
    (event,) = events(source)
    assert event.payload["body"] == told


def test_lif_06_a_paused_hook_says_so_to_who_is_proven_and_to_nobody_else() -> None:
    source = a_hook(secret=SECRET).source
    acts.pause_source(source=source, actor=ACTOR)
    assert (of_github().status_code, of_github(secret="wrong").status_code) == (409, 401)
    assert not SeenEvent.objects.exists()
    acts.resume_source(source=row(source), actor=ACTOR)
    assert of_github().status_code == 202


def test_lif_06_only_post_is_a_hook() -> None:
    a_hook(secret=SECRET)
    answer: Any = Client().get("/api/automations/hooks/hook")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


def test_lif_06_a_secret_that_no_key_opens_proves_nothing_and_tells_nobody() -> None:
    source = a_hook(secret=SECRET).source
    AutomationSource.objects.filter(pk=source.pk).update(sealed_secrets=b"\x01" * 60)
    assert of_github().status_code == 401


def test_lif_06_secrets_of_another_source_do_not_open() -> None:
    first, second = a_hook("first", secret=SECRET).source, a_hook("second", secret="other").source
    AutomationSource.objects.filter(pk=second.pk).update(sealed_secrets=row(first).sealed_secrets)
    with pytest.raises(credentials.NoCredentials):
        credentials.credentials_of(row(second))


# Slack.


def by_slack(body: bytes, name: str = "team") -> Any:
    signed = {name.replace("-", "_"): value for name, value in slack.signed(body, at=clock.now()).items()}
    return post(name, body, **signed)


def test_slack_is_answered_its_challenge_when_it_is_proven() -> None:
    a_slack()
    body = json.dumps({"type": "url_verification", "token": "x", "challenge": "3eZbrw1a"}).encode()
    assert by_slack(body).json() == {"challenge": "3eZbrw1a"}
    assert "3eZbrw1a" not in post("team", body).content.decode()


def test_what_people_write_to_slack_is_an_event_where_the_source_has_a_rule() -> None:
    source = a_slack()
    body = slack.an_answer("Open the door", thread="1531420618.000100", event_id="Ev1", thread_ts=None)
    assert by_slack(body).json() == {"outcome": "ignored"}
    gear.bare_rule(source)
    assert by_slack(body).json() == {"outcome": "taken"}
    by_slack(body)  # Slack repeats what was not answered within three seconds
    (event,) = events(source)
    assert (event.actor, event.payload["event"]["text"]) == ("UANN", "Open the door")
    acts.pause_source(source=row(source), actor=ACTOR)
    later = slack.an_answer("Close it", thread="1531420618.000100", event_id="Ev2", thread_ts=None)
    assert by_slack(later).status_code == 409
    assert len(events(source)) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"bot_id": "BBOT"},
        {"subtype": "message_changed"},
        {"type": "reaction_added"},
        {"user": ""},
    ],
)
def test_what_no_person_wrote_to_slack_is_ignored(more: dict[str, Any]) -> None:
    source = a_slack()
    gear.bare_rule(source)
    body = slack.an_answer("Done.", thread="1531420618.000100", **more)
    assert by_slack(body).json() == {"outcome": "ignored"}
    assert events(source) == []
