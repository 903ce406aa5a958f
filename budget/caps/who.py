"""Who may change caps and keys over the API. (CAP-12)

A key with `keys:write` may, and never for its own lineage; a key that has a cap itself may change nothing of either, or
it would get out from under it. People in the console and at a shell are asked for their permissions elsewhere.
"""

import uuid
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from budget.caps import rows
from dpp_project import clock
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants.models import ApiKey, Tenant
from tenants.principals import Principal


@dataclass(frozen=True, slots=True)
class AskingKey:
    """The key of a request that changes caps or keys."""

    tenant_id: str
    key_id: uuid.UUID
    lineage_id: uuid.UUID | None

    @classmethod
    def of(cls, principal: Principal) -> "AskingKey":
        return cls(principal.tenant_id, principal.key_id, principal.lineage_id)


def live_keys(tenant_id: str) -> QuerySet[ApiKey]:
    not_over = Q(expires_at__isnull=True) | Q(expires_at__gt=clock.now())
    return ApiKey.objects.filter(not_over, tenant_id=tenant_id, status=ApiKey.Status.ACTIVE)


def standing_key(asking: AskingKey) -> ApiKey | Refusal:
    """The asking key as it stands. A principal may be 4 s old, and what a key changes in them outlives it."""
    keys = live_keys(asking.tenant_id).filter(tenant__status=Tenant.Status.ACTIVE)
    return keys.filter(key_id=asking.key_id).first() or Refusal(ReasonCode.AUTH_INVALID, "The API key is not valid.")


def ended_key_fault(asking: AskingKey | None) -> Refusal | None:
    found = None if asking is None else standing_key(asking)
    return found if isinstance(found, Refusal) else None


def capped_fault(asking: AskingKey | None) -> Refusal | None:
    """Asked under the tenant's row lock, which each change of caps takes: what it answers stays so until the commit."""
    if asking is None or not rows.is_capped(asking.tenant_id, asking.lineage_id):
        return None
    return Refusal(
        ReasonCode.CAPS_PROTECTED,
        "This key has a spend cap of its own, so it changes no caps, keys or settings of the budget; use a key with"
        " keys:write that has none.",
    )


def own_caps_fault(asking: AskingKey | None, lineage_id: uuid.UUID | None) -> Refusal | None:
    if asking is None or lineage_id is None or asking.lineage_id != lineage_id:
        return None
    return Refusal(
        ReasonCode.CAPS_PROTECTED,
        "No key changes the caps of itself or of its rotations; use another key with keys:write, or the console.",
    )
