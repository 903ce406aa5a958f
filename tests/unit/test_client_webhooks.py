"""`verify_webhook` takes what DPP signs, and nothing else (DPP-83)."""

import json
from datetime import UTC, datetime

import pytest

import dpp
from tenants.webhooks import signing

pytestmark = pytest.mark.contract("DPP-83")

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NOW = AT.timestamp()
OURS, OLD, OTHER = (signing.written_secret(bytes([one]) * signing.KEY_BYTES) for one in (1, 2, 3))
BODY = json.dumps(
    {"type": "run.completed", "timestamp": "2026-03-01T12:00:00.123456Z", "data": {"version": 4}}
).encode()


def sent(body: bytes = BODY, *secrets: str) -> dict[str, str]:
    return dict(signing.signature_headers(webhook_id="msg_1", at=AT, body=body, secrets=secrets or (OURS,)))


def test_dpp_83_what_we_signed_is_an_event() -> None:
    event = dpp.verify_webhook(BODY, {name.title(): value for name, value in sent().items()}, OURS, now=NOW)
    assert (event.webhook_id, event.type, event.data) == ("msg_1", "run.completed", {"version": 4})
    assert event.timestamp == datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize("known", [(OURS,), (OLD,), (OTHER, OLD)])
def test_dpp_83_one_secret_that_matches_is_enough(known: tuple[str, ...]) -> None:
    assert dpp.verify_webhook(BODY, sent(BODY, OURS, OLD), known, now=NOW).type == "run.completed"


@pytest.mark.parametrize("late", [-301, 301])
def test_dpp_83_what_was_signed_at_another_time_is_refused(late: int) -> None:
    assert dpp.verify_webhook(BODY, sent(), OURS, now=NOW + late * 300 / 301).webhook_id == "msg_1"
    with pytest.raises(dpp.InvalidWebhookError, match="more than 300 s"):
        dpp.verify_webhook(BODY, sent(), OURS, now=NOW + late)
    assert dpp.verify_webhook(BODY, sent(), OURS, now=NOW + late, tolerance_seconds=400).webhook_id == "msg_1"


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        (BODY + b" ", {}),
        (BODY, {"webhook-id": "msg_2"}),
        (BODY, {"webhook-id": ""}),
        (BODY, {"webhook-timestamp": str(int(NOW) + 1)}),
        (BODY, {"webhook-timestamp": "soon"}),
        (BODY, {"webhook-signature": ""}),
        (BODY, {"webhook-signature": "v1,"}),
        (BODY, {"webhook-signature": "v1,\u00e4"}),
        (BODY, {"webhook-signature": sent(BODY, OTHER)["webhook-signature"]}),
        (BODY, {"webhook-signature": sent()["webhook-signature"].replace("v1,", "v2,")}),
    ],
)
def test_dpp_83_what_was_changed_is_refused(body: bytes, changes: dict[str, str]) -> None:
    with pytest.raises(dpp.InvalidWebhookError):
        dpp.verify_webhook(body, sent() | changes, OURS, now=NOW)


@pytest.mark.parametrize("secrets", [[], "", "whsec_", "whsec_!", ["whsec_"]])
def test_dpp_83_no_secret_verifies_nothing(secrets: list[str] | str) -> None:
    with pytest.raises(dpp.ConfigurationError) as error:
        dpp.verify_webhook(BODY, sent(), secrets, now=NOW)
    assert "!" not in str(error.value)


@pytest.mark.parametrize(
    "body", [b"[]", b"{", b'{"type": "run.completed"}', b'{"type": 1, "timestamp": "x", "data": {}}']
)
def test_dpp_83_what_is_no_event_is_refused(body: bytes) -> None:
    with pytest.raises(dpp.InvalidWebhookError, match="no event"):
        dpp.verify_webhook(body, sent(body), OURS, now=NOW)
