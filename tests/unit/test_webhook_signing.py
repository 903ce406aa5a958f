"""Standard Webhooks, against the example of its document, and against the public library as a receiver uses it."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from dpp_project import clock
from tenants.webhooks import signing

pytestmark = pytest.mark.contract("HOOK-02")

ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = signing.written_secret(bytes(range(32)))
BODY = b'{"test": 2432232314}'


def signed(body: bytes = BODY, *, at: datetime | None = None, secrets: tuple[str, ...] = (SECRET,)) -> dict[str, str]:
    return dict(signing.signature_headers(webhook_id=ID, at=at or clock.now(), body=body, secrets=secrets))


def test_hook_02_the_example_of_the_document() -> None:
    at = datetime.fromtimestamp(1_614_265_330, UTC)
    assert signed(at=at) == {
        "webhook-id": ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize("hours", [0, 9, -8, 5.5])
def test_hook_02_an_aware_time_of_any_zone_is_the_same_moment(hours: float) -> None:
    zone = timezone(timedelta(hours=hours))
    assert Webhook(SECRET).verify(BODY, signed(at=clock.now().astimezone(zone))) == {"test": 2432232314}


def test_hook_02_each_live_secret_verifies_and_no_other() -> None:
    headers = signed(secrets=(OTHER, SECRET))
    for secret in (OTHER, SECRET):
        assert Webhook(secret).verify(BODY, headers) == {"test": 2432232314}
    with pytest.raises(WebhookVerificationError):
        Webhook(signing.written_secret(b"x" * 32)).verify(BODY, headers)


def test_hook_02_text_of_any_script_is_signed_as_it_is_sent() -> None:
    body = json.dumps({"이유": "완료 \N{SLIGHTLY SMILING FACE}"}, ensure_ascii=False).encode()
    assert Webhook(SECRET).verify(body, signed(body)) == {"이유": "완료 \N{SLIGHTLY SMILING FACE}"}


@pytest.mark.parametrize("touched", ["body", "webhook-id", "webhook-timestamp", "webhook-signature"])
def test_hook_02_what_was_touched_does_not_verify(touched: str) -> None:
    headers, body = signed(), BODY
    if touched == "body":
        body = BODY.replace(b"4", b"5")
    elif touched == "webhook-timestamp":
        headers[touched] = str(int(headers[touched]) + 1)
    elif touched == "webhook-id":
        headers[touched] += "x"
    else:
        headers[touched] = signed(b"{}")[touched]
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body, headers)


@pytest.mark.parametrize(("webhook_id", "secrets"), [("msg.1", (SECRET,)), (ID, ())])
def test_hook_02_an_id_with_a_dot_and_an_attempt_without_a_secret_are_no_attempts(
    webhook_id: str, secrets: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match="no dot"):
        signing.signature_headers(webhook_id=webhook_id, at=clock.now(), body=BODY, secrets=secrets)


def test_hook_02_a_secret_is_read_as_it_is_written_and_named_in_no_error() -> None:
    assert signing.key_of(signing.written_secret(b"k" * 32)) == b"k" * 32
    with pytest.raises(ValueError, match="no signing secret") as refused:
        signing.key_of("whsec_not base64")
    assert "not base64" not in str(refused.value)
