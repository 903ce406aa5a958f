"""A source's token and signing secrets: encrypted and bound to the source, or in the environment.

The environment is asked for names that begin with AUTOMATION_SECRET_ and for no other: a source that named
DPP_SECRET_KEY would send it to its own address. A secret that is replaced signs on for a day, so that the sender may
change at any time within it; a token ends at once.
"""

import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from dpp_project import encryption
from ops.automations.models import AutomationSource
from tenants.webhooks import signing

GRACE: Final = timedelta(hours=24)
SECRETS_MAX: Final = 2
ENVIRONMENT_NAME: Final = re.compile(r"AUTOMATION_SECRET_[A-Z0-9_]{1,64}")
_TOKEN: Final = "token"  # noqa: S105  a name
_SIGNING: Final = "signing"


class NoCredentials(RuntimeError):  # noqa: N818  named for the finding
    """What the source needs is not set, or no key opens it."""


@dataclass(frozen=True, slots=True)
class SigningSecret:
    secret: str = field(repr=False)
    until: str | None = None
    """None: in use. Else when it ends."""

    def is_live(self, now: datetime) -> bool:
        return self.until is None or datetime.fromisoformat(self.until) > now


@dataclass(frozen=True, slots=True)
class Credentials:
    token: str = field(default="", repr=False)
    signing: tuple[SigningSecret, ...] = field(default=(), repr=False)

    def live(self, now: datetime) -> list[str]:
        return [one.secret for one in self.signing if one.is_live(now)]

    def with_signing(self, secret: str, *, now: datetime) -> "Credentials":
        """The new one signs at once, the one before it for a day more."""
        ends = (now + GRACE).isoformat()
        former = [SigningSecret(one.secret, one.until or ends) for one in self.signing if one.is_live(now)]
        return Credentials(self.token, (SigningSecret(secret), *former))

    def with_token(self, token: str) -> "Credentials":
        return Credentials(token, self.signing)


def credentials_of(source: AutomationSource) -> Credentials:
    """Raises NoCredentials where they cannot be read; where there are none, they are empty."""
    return _with_environment(source, kept_credentials(source))


def kept_credentials(source: AutomationSource) -> Credentials:
    """What lies encrypted, without what the environment holds. Raises NoCredentials."""
    if source.sealed_secrets is None:
        return Credentials()
    try:
        opened = encryption.decrypt(bytes(source.sealed_secrets), bound_to=_bound_to(source.pk))
    except (encryption.Unreadable, encryption.NoEncryptionKey) as error:
        raise NoCredentials(str(error)) from None
    return _source_credentials_of(json.loads(opened))


def sealed_credentials(source_id: UUID, credentials: Credentials) -> bytes:
    """Raises encryption.NoEncryptionKey."""
    document = {
        _TOKEN: credentials.token,
        _SIGNING: [{"secret": one.secret, "until": one.until} for one in credentials.signing],
    }
    return encryption.encrypt(json.dumps(document).encode(), bound_to=_bound_to(source_id))


def new_signing_secret() -> str:
    """In the form of Standard Webhooks, which is as good a secret for GitHub."""
    return signing.written_secret(secrets.token_bytes(signing.KEY_BYTES))


def _source_credentials_of(document: Mapping[str, Any]) -> Credentials:
    signing_secrets = tuple(SigningSecret(one["secret"], one["until"]) for one in document.get(_SIGNING, ()))
    return Credentials(str(document.get(_TOKEN, "")), signing_secrets)


def _with_environment(source: AutomationSource, encrypted: Credentials) -> Credentials:
    """What a setting names wins over what lies encrypted."""
    token = _source_secret_of_variable(source.settings.get("token_env"))
    listed = _source_secret_of_variable(source.settings.get("signing_env"))
    return Credentials(
        token or encrypted.token,
        tuple(SigningSecret(one.strip()) for one in listed.split(",") if one.strip()) or encrypted.signing,
    )


def _source_secret_of_variable(name: object) -> str:
    if not name:
        return ""
    if not isinstance(name, str) or ENVIRONMENT_NAME.fullmatch(name) is None:
        raise NoCredentials("its setting names no variable AUTOMATION_SECRET_…")
    value = os.environ.get(name, "")
    if not value:
        raise NoCredentials(f"{name} is not set")
    return value


def _bound_to(source_id: UUID) -> bytes:
    return b"secrets of automation source " + source_id.bytes
