"""Codes of the second factor: RFC 6238 with SHA-1, 30 s and six digits, which every authenticator app has. Pure."""

import base64
import hmac
import secrets
from typing import Final
from urllib.parse import quote

STEP_SECONDS: Final = 30
DIGITS: Final = 6
SECRET_BYTES: Final = 20
DRIFT_STEPS: Final = 1
"""A phone's clock may be half a minute off either way."""


def new_secret() -> str:
    return base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")


def step_at(seconds: float) -> int:
    return int(seconds) // STEP_SECONDS


def totp_code(secret: str, step: int) -> str:
    """HOTP of RFC 4226 over the number of the step."""
    digest = hmac.digest(base64.b32decode(secret), step.to_bytes(8, "big"), "sha1")
    offset = digest[-1] & 0xF
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFF_FFFF
    return str(number % 10**DIGITS).zfill(DIGITS)


def matching_step(secret: str, given: str, *, seconds: float, after: int) -> int | None:
    """The step that a code belongs to, or None. Steps up to `after` have been used: a code is good once."""
    now = step_at(seconds)
    cleaned = given.replace(" ", "")
    found = None
    for step in range(now - DRIFT_STEPS, now + DRIFT_STEPS + 1):
        is_it = hmac.compare_digest(totp_code(secret, step).encode(), cleaned.encode("utf-8", "replace"))
        if is_it and step > after:
            found = step
    return found


def provisioning_uri(secret: str, *, name: str, issuer: str) -> str:
    """What an authenticator app reads: as a link, or typed by hand from the secret."""
    label = quote(f"{issuer}:{name}", safe="")
    return f"otpauth://totp/{label}?secret={secret}&issuer={quote(issuer, safe='')}"
