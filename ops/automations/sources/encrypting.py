"""Encrypts sources' secrets anew under the first of DPP_ENCRYPTION_KEYS, so that an older key may go.

Each source is one compare-and-set of its own: a death in between leaves the rest to the next call.
"""

from dataclasses import dataclass, field

from django.db import transaction
from django.db.models import F

from dpp_project import encryption
from dpp_project.audit import trail
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.automations.models import AutomationSource
from ops.automations.sources import credentials


@dataclass(slots=True)
class ReencryptedSources:
    changed: int = 0
    unreadable: list[str] = field(default_factory=list)
    """Sources whose secrets no key opens: they are given anew, or the key comes back."""


def reencrypt_sources(*, actor: str) -> ReencryptedSources | Refusal:
    if not encryption.is_possible():
        return Refusal(ReasonCode.SERVICE_UNAVAILABLE, "DPP_ENCRYPTION_KEYS is not set", "DPP_ENCRYPTION_KEYS")
    done = ReencryptedSources()
    head = encryption.current_head()
    for source in AutomationSource.objects.filter(sealed_secrets__isnull=False):
        sealed = bytes(source.sealed_secrets or b"")
        if sealed.startswith(head):
            continue
        try:
            anew = credentials.sealed_credentials(source.pk, credentials.kept_credentials(source))
        except credentials.NoCredentials:
            done.unreadable.append(source.name)
            continue
        same = AutomationSource.objects.filter(pk=source.pk, sealed_secrets=sealed)
        done.changed += same.update(sealed_secrets=anew, version=F("version") + 1)
    if done.changed:
        with transaction.atomic():
            facts = {"sources": done.changed}
            trail.record_in_trail(
                "automation sources encrypted anew", actor=actor, subject="automation sources", after=facts
            )
    return done
