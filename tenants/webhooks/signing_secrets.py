"""Signing secrets of endpoints: made, kept encrypted, and read by the sender alone.

A secret is shown to its owner once, when it is made. Each is bound to its endpoint's id: a ciphertext copied to another
endpoint's row opens for nobody.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import BinaryField, Q, QuerySet
from django.db.models.functions import Substr
from django.db.models.lookups import In

from dpp_project import encryption
from tenants.webhooks import signing
from tenants.webhooks.models import WebhookSecret

GRACE: Final = timedelta(hours=24)
"""How long the secret before the last one still signs beside it."""


@dataclass(frozen=True, slots=True)
class NewSecret:
    """As it is shown, once, and as it is stored."""

    plaintext: str
    ciphertext: bytes

    def __repr__(self) -> str:
        return "NewSecret()"


def make_signing_secret(endpoint_id: UUID) -> NewSecret:
    """Raises encryption.NoEncryptionKey."""
    key = secrets.token_bytes(signing.KEY_BYTES)
    return NewSecret(signing.written_secret(key), encryption.encrypt(key, bound_to=_bound_to(endpoint_id)))


def live_secrets(endpoint_id: UUID, *, now: datetime) -> list[str]:
    """Each that signs now, the newest first; empty for an endpoint that is deleted. Raises encryption.Unreadable."""
    rows = WebhookSecret.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now), endpoint_id=endpoint_id)
    return [signing.written_secret(_decrypted_signing_secret(row)) for row in rows.order_by("-secret_id")]


def under_older_keys() -> QuerySet[WebhookSecret]:
    """What the first key did not encrypt. Raises encryption.NoEncryptionKey."""
    return _but(encryption.current_head()).order_by("secret_id")


def under_no_key() -> int:
    """How many bear the mark of no key that is set."""
    return _but(*encryption.known_heads()).count()


def _but(*heads: bytes) -> QuerySet[WebhookSecret]:
    """Those that begin otherwise."""
    head = Substr("ciphertext", 1, encryption.HEAD_BYTES, output_field=BinaryField())
    return WebhookSecret.objects.exclude(In(head, list(heads))) if heads else WebhookSecret.objects.all()


def encrypted_anew(row: WebhookSecret) -> bytes:
    """The same secret under the first key. Raises encryption.Unreadable."""
    return encryption.encrypt(_decrypted_signing_secret(row), bound_to=_bound_to(row.endpoint_id))


def _decrypted_signing_secret(row: WebhookSecret) -> bytes:
    return encryption.decrypt(bytes(row.ciphertext), bound_to=_bound_to(row.endpoint_id))


def _bound_to(endpoint_id: UUID) -> bytes:
    return b"webhook secret of " + endpoint_id.bytes
