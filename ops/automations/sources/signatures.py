"""Who signed this body: GitHub's way, Standard Webhooks' and Slack's. Pure.

Each answers the event's id, or None for every wrong reason alike. Each secret is tried to the end, in constant time, so
that neither the answer nor its time says which secret, or how much of a signature, was right.

What is signed decides what the id may be. GitHub signs the body alone, and its X-GitHub-Delivery stands outside the
signature, where one who replays a body writes another: the id is the body's own hash. Standard Webhooks and Slack
sign a timestamp too, and an id with it (the header, or `event_id` in the body).
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tenants.webhooks import signing

OLDEST_SECONDS: Final = 300
SIGNATURES_MAX: Final = 8
"""Of one request. A sender that rotates has two."""
ID_LENGTH_MAX: Final = 255
_TIMESTAMP_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Signed:
    """`event_id` None: the signature is right, and what it signs bears the id (Slack's `event_id`)."""

    event_id: str | None


HookHeaders = Mapping[str, str]
"""Names in lower case."""
Verify = Callable[[HookHeaders, bytes, Sequence[str], datetime], Signed | None]


def github_signature(headers: HookHeaders, body: bytes, secrets: Sequence[str], _now: datetime) -> Signed | None:
    said = headers.get("x-hub-signature-256", "")
    made = ["sha256=" + hmac.digest(secret.encode(), body, "sha256").hex() for secret in secrets]
    if not _is_among([said], made):
        return None
    return Signed("sha256:" + hashlib.sha256(body).hexdigest())


def standard_signature(headers: HookHeaders, body: bytes, secrets: Sequence[str], now: datetime) -> Signed | None:
    """https://www.standardwebhooks.com. An id with a dot could share its signature with another id and time."""
    webhook_id, at = headers.get("webhook-id", ""), _recent(headers.get("webhook-timestamp", ""), now)
    said = headers.get("webhook-signature", "").split()[:SIGNATURES_MAX]
    if at is None or not webhook_id or "." in webhook_id or len(webhook_id) > ID_LENGTH_MAX or not secrets:
        return None
    made = dict(signing.signature_headers(webhook_id=webhook_id, at=at, body=body, secrets=secrets))[
        "webhook-signature"
    ]
    return Signed(webhook_id) if _is_among(said, made.split()) else None


def slack_signature(headers: HookHeaders, body: bytes, secrets: Sequence[str], now: datetime) -> Signed | None:
    timestamp = headers.get("x-slack-request-timestamp", "")
    if _recent(timestamp, now) is None:
        return None
    signed = b"v0:" + timestamp.encode() + b":" + body
    made = ["v0=" + hmac.digest(secret.encode(), signed, "sha256").hex() for secret in secrets]
    return Signed(None) if _is_among([headers.get("x-slack-signature", "")], made) else None


def _recent(timestamp: str, now: datetime) -> datetime | None:
    """The moment it names, where that is no more than five minutes away on either side."""
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= _TIMESTAMP_DIGITS):
        return None
    if abs(now.timestamp() - int(timestamp)) > OLDEST_SECONDS:
        return None
    return datetime.fromtimestamp(int(timestamp), tz=UTC)


def _is_among(said: Sequence[str], made: Sequence[str]) -> bool:
    """All are compared, whatever the first ones come to."""
    matches = [hmac.compare_digest(one.encode(), other.encode()) for one in said for other in made]
    return any(matches)
