"""The three headers of an attempt, by Standard Webhooks 1.0: https://www.standardwebhooks.com

A few lines of our own: the public library's `sign()` turns aware times that are not UTC into wrong ones. It verifies in
the tests. The receiver refuses what is older than five minutes by its timestamp, so that is the attempt's, not the
event's; and tells a repetition by the id, which is the message's at every attempt.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import Final

PREFIX: Final = "whsec_"
KEY_BYTES: Final = 32


def signature_headers(*, webhook_id: str, at: datetime, body: bytes, secrets: Sequence[str]) -> list[tuple[str, str]]:
    """For a request with exactly this body. One signature for each live secret, the newest first."""
    if "." in webhook_id or not secrets:
        raise ValueError("an id has no dot in it, and an attempt at least one secret")
    timestamp = str(int(at.timestamp()))
    signed = b".".join((webhook_id.encode(), timestamp.encode(), body))
    return [
        ("webhook-id", webhook_id),
        ("webhook-timestamp", timestamp),
        ("webhook-signature", " ".join(_signature(secret, signed) for secret in secrets)),
    ]


def key_of(secret: str) -> bytes:
    """The bytes that sign. ValueError for what is no secret; the message never holds it."""
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("no signing secret") from None


def written_secret(key: bytes) -> str:
    """As its owner is shown it."""
    return PREFIX + base64.b64encode(key).decode("ascii")


def _signature(secret: str, signed: bytes) -> str:
    digest = hmac.new(key_of(secret), signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode("ascii")
