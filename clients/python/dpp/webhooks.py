"""Is this webhook DPP's? By Standard Webhooks 1.0 (https://www.standardwebhooks.com)."""

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dpp.errors import ConfigurationError, InvalidWebhookError

PREFIX: Final = "whsec_"
TOLERANCE_SECONDS: Final = 300


@dataclass(frozen=True)
class WebhookEvent:
    """`webhook_id` is the same however often it is sent: remember it, and do nothing the second time."""

    webhook_id: str
    type: str
    timestamp: datetime
    data: dict[str, Any]


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str],
    secrets: str | Iterable[str],
    *,
    tolerance_seconds: int = TOLERANCE_SECONDS,
    now: float | None = None,
) -> WebhookEvent:
    """The event, where one of the secrets signed exactly these bytes. Raises InvalidWebhookError.

    Give the body as it came: read as JSON and written anew it is other bytes. Two secrets live for a day after a
    rotation; give both. What was signed longer ago, or further ahead, than the tolerance is refused.
    """
    if not isinstance(body, bytes | bytearray | memoryview):
        raise ConfigurationError("body must be the bytes as they came, before any JSON is read")
    keys = [_key_of(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    if not keys:
        raise ConfigurationError("no secret was given")
    told = {name.lower(): value for name, value in headers.items()}
    name, at, signatures = (told.get(f"webhook-{part}", "") for part in ("id", "timestamp", "signature"))
    if not name or not (at.isascii() and at.isdigit() and len(at) <= 12):
        raise InvalidWebhookError("webhook-id or webhook-timestamp is missing or wrong")
    signed = f"{name}.{at}.".encode() + bytes(body)
    if not _is_signed(signed, keys, signatures):
        raise InvalidWebhookError("no signature matches")
    if abs((time.time() if now is None else now) - int(at)) > tolerance_seconds:
        raise InvalidWebhookError(f"signed more than {tolerance_seconds} s ago, or ahead")
    return _event(name, bytes(body))


def _key_of(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:  # anyone can sign with nothing
        raise ConfigurationError("a secret is whsec_ and base64, as the registration answered it") from None
    return key


def _is_signed(signed: bytes, keys: list[bytes], signatures: str) -> bool:
    given = [one.removeprefix("v1,").encode() for one in signatures.split() if one.startswith("v1,")]
    wanted = [base64.b64encode(hmac.digest(key, signed, hashlib.sha256)) for key in keys]
    return any(hmac.compare_digest(one, ours) for one in given for ours in wanted)


def _event(name: str, body: bytes) -> WebhookEvent:
    try:
        document = json.loads(body)
        at = datetime.fromisoformat(document["timestamp"])
        return WebhookEvent(name, str(document["type"]), at, dict(document["data"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidWebhookError("signed, but no event of DPP") from None
