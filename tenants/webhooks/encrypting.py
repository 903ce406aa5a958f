"""Encrypts anew what still lies under an older key, so that the older key may go.

Each secret is one compare-and-set of its own: a run that is killed has done what it did, and the next goes on with what
is left. A rotation in between has made a secret under the first key already, and the old row, if it changed, is left.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from django.db import transaction

from dpp_project import encryption
from dpp_project.audit import trail
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants.webhooks import signing_secrets
from tenants.webhooks.models import WebhookSecret

AT_ONCE: Final = 200


@dataclass(slots=True)
class Reencrypted:
    changed: int = 0
    unreadable: list[str] = field(default_factory=list)
    """Webhooks whose secret no key opens: their owners rotate, or the key comes back."""


def reencrypt_secrets(*, actor: str, dry_run: bool = False) -> Reencrypted | Refusal:
    """All of them. On a dry run `changed` is how many it would try."""
    if not encryption.is_possible():
        return Refusal(ReasonCode.SERVICE_UNAVAILABLE, "DPP_ENCRYPTION_KEYS is not set", "DPP_ENCRYPTION_KEYS")
    waiting = signing_secrets.under_older_keys().count()
    if dry_run or not waiting:
        return Reencrypted(waiting)
    with transaction.atomic():
        facts = {"secrets_under_older_keys": waiting}
        trail.record_in_trail("webhook secrets encrypted anew", actor=actor, subject="webhooks", before=facts)
    done = Reencrypted()
    for secret in _one_by_one():
        try:
            anew = signing_secrets.encrypted_anew(secret)
        except encryption.Unreadable:
            done.unreadable.append(str(secret.endpoint_id))
            continue
        same = WebhookSecret.objects.filter(pk=secret.pk, ciphertext=secret.ciphertext)
        done.changed += same.update(ciphertext=anew)
    return done


def _one_by_one() -> Iterator[WebhookSecret]:
    last = 0
    while some := list(signing_secrets.under_older_keys().filter(secret_id__gt=last)[:AT_ONCE]):
        yield from some
        last = some[-1].secret_id
