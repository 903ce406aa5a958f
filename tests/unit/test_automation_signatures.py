"""Signed hooks: what proves who sent them, and that every wrong reason is the same reason."""

import base64
import hashlib
import hmac
import inspect
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook

from ops.automations.sources import signatures
from ops.automations.sources.signatures import Signed
from tests.gear.servers.services import slack

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BODY = b'{"action": "opened"}'
OLD, NEW = "former secret", "It's a Secret to Everybody"
WHSEC = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
WHSEC_OLD = "whsec_" + base64.b64encode(b"fedcba9876543210fedcba9876543210").decode()


def of_github(body: bytes = BODY, secret: str = NEW) -> dict[str, str]:
    return {"x-hub-signature-256": "sha256=" + hmac.digest(secret.encode(), body, "sha256").hex()}


def of_standard(*, secret: str = WHSEC, at: datetime = NOW, webhook_id: str = "msg_1") -> dict[str, str]:
    signature = Webhook(secret).sign(webhook_id, at, BODY.decode())
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": signature,
    }


def test_github_signs_as_its_documentation_says() -> None:
    """Secret, payload and signature are those of GitHub's own page on validating deliveries."""
    headers = {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
    signed = signatures.github_signature(headers, b"Hello, World!", ["It's a Secret to Everybody"], NOW)
    assert signed == Signed("sha256:" + hashlib.sha256(b"Hello, World!").hexdigest())


@pytest.mark.contract("LIF-12")
def test_lif_12_githubs_delivery_id_decides_nothing() -> None:
    """It stands outside the signature: whoever replays the body writes a new one."""
    first = signatures.github_signature(of_github() | {"x-github-delivery": "1"}, BODY, [NEW], NOW)
    again = signatures.github_signature(of_github() | {"x-github-delivery": "2"}, BODY, [NEW], NOW)
    assert first is not None
    assert first == again


@pytest.mark.parametrize("live", [[NEW], [OLD, NEW], [NEW, OLD]])
def test_each_live_secret_signs(live: list[str]) -> None:
    assert signatures.github_signature(of_github(secret=NEW), BODY, live, NOW) is not None


@pytest.mark.parametrize(
    ("headers", "body", "live"),
    [
        ({}, BODY, [NEW]),
        ({"x-hub-signature-256": ""}, BODY, [NEW]),
        ({"x-hub-signature-256": "sha256="}, BODY, [NEW]),
        ({"x-hub-signature-256": of_github()["x-hub-signature-256"].removeprefix("sha256=")}, BODY, [NEW]),
        ({"x-hub-signature": of_github()["x-hub-signature-256"]}, BODY, [NEW]),
        (of_github(), BODY + b" ", [NEW]),
        (of_github(secret=OLD), BODY, [NEW]),
        (of_github(secret=""), BODY, []),
        ({"x-hub-signature-256": "sha256=\u00e9"}, BODY, [NEW]),
    ],
)
def test_what_github_did_not_sign_is_refused(headers: dict[str, str], body: bytes, live: list[str]) -> None:
    assert signatures.github_signature(headers, body, live, NOW) is None


def test_standard_webhooks_are_verified_by_their_signed_id() -> None:
    assert signatures.standard_signature(of_standard(), BODY, [WHSEC], NOW) == Signed("msg_1")
    both = of_standard()
    both["webhook-signature"] = of_standard(secret=WHSEC_OLD)["webhook-signature"] + " " + both["webhook-signature"]
    assert signatures.standard_signature(both, BODY, [WHSEC], NOW) == Signed("msg_1")
    assert signatures.standard_signature(of_standard(secret=WHSEC_OLD), BODY, [WHSEC, WHSEC_OLD], NOW) == Signed(
        "msg_1"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-id": "msg_2"},
        {"webhook-id": ""},
        {"webhook-id": "msg_1.1"},
        {"webhook-timestamp": str(int(NOW.timestamp()) + 1)},
        {"webhook-timestamp": "yesterday"},
        {"webhook-timestamp": "9" * 40},
        {"webhook-timestamp": "\u0661"},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "v1a," + of_standard()["webhook-signature"].removeprefix("v1,")},
    ],
)
def test_a_standard_webhook_with_anything_changed_is_refused(changed: dict[str, str]) -> None:
    assert signatures.standard_signature(of_standard() | changed, BODY, [WHSEC], NOW) is None


def test_a_dot_in_the_id_would_move_the_bounds_of_what_is_signed() -> None:
    """`a.1` at time 2 and `a` at time 1 with a body that begins `2.` are the same bytes."""
    headers = of_standard(webhook_id="a.1")
    assert signatures.standard_signature(headers, BODY, [WHSEC], NOW) is None


@pytest.mark.parametrize("seconds", [-301, 301])
def test_a_timestamp_five_minutes_away_is_refused(seconds: int) -> None:
    at = NOW + timedelta(seconds=seconds)
    assert signatures.standard_signature(of_standard(at=at), BODY, [WHSEC], NOW) is None
    assert signatures.slack_signature(slack.signed(BODY, at=at), BODY, [slack.SIGNING_SECRET], NOW) is None
    near = NOW + timedelta(seconds=seconds - (1 if seconds > 0 else -1))
    assert signatures.standard_signature(of_standard(at=near), BODY, [WHSEC], NOW) is not None
    assert signatures.slack_signature(slack.signed(BODY, at=near), BODY, [slack.SIGNING_SECRET], NOW) is not None


def test_slack_signs_as_its_documentation_says() -> None:
    """Secret, body and signature are those of Slack's own page on verifying requests."""
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&"
        b"channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&"
        b"response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F"
        b"96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    at = datetime.fromtimestamp(1531420618, tz=UTC)
    assert signatures.slack_signature(headers, body, ["8f742231b10e8888abcd99yyyzzz85a5"], at) == Signed(None)
    assert signatures.slack_signature(headers, body + b"&", ["8f742231b10e8888abcd99yyyzzz85a5"], at) is None
    assert signatures.slack_signature(headers, body, ["another"], at) is None
    assert signatures.slack_signature({}, body, ["another"], at) is None


def test_all_secrets_are_compared_in_constant_time() -> None:
    """Whether the first or the last is the right one must not show: no comparison ends the others."""
    source = inspect.getsource(signatures._is_among)
    assert "compare_digest" in source
    assert "any(matches)" in source
    assert "==" not in inspect.getsource(signatures)
