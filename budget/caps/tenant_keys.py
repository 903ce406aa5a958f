"""Keys as their tenant makes, rotates and revokes them over the API. None of them is wider than the key that asks.

Each act is one transaction under the tenant's row lock, with its checks and its lines in the trail. Keys that people
make in the console, or at a shell, go through tenants/services.py alone.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q, QuerySet

from budget.caps import enforcing, rows, setting, who
from budget.caps.who import AskingKey
from budget.redis.windows import CapPeriod
from dpp_project import clock
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from tenants import services
from tenants.models import ApiKey, SpendCap, Tenant
from tenants.scopes import Scope
from tenants.services import IssuedKey

LIVE_KEYS_MAX: Final = 1_000
KEYS_A_DAY_MAX: Final = 1_000
A_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class KeyMade:
    """A key with its plaintext, to be shown once. `enforced`: no process lets a hold past its caps."""

    issued: IssuedKey
    limits: rows.CapLimits
    revision: int
    enforced: bool


def make_key(
    *,
    asking: AskingKey,
    scopes: Iterable[str],
    label: str | None,
    expires_at: datetime | None,
    limits: dict[CapPeriod, int | None],
    actor: str,
) -> KeyMade | Refusal:
    """A new key, with caps or without. Not idempotent: asked twice it makes two.

    `expires_at=None`: it ends with the key that asks. Its scopes are among that key's, and `keys:write` is not: a key
    made here could else lift the caps of its maker.

    Order: one transaction writes the key and its caps; the script makes its counters, at nothing; then the key is
    shown. Dying in between leaves a key that nobody knows. Where Redis is away the key is shown all the same: its first
    hold brings the revision of its caps, finds no counters, and has the tenant rebuilt before anything is held.
    """
    chosen = sorted(set(scopes))
    with transaction.atomic(durable=True):
        answer = _tenant_key_or_refusal(asking, chosen, label, expires_at, limits, actor=actor)
    if isinstance(answer, Refusal):
        return answer
    issued, row = answer
    if row is None:
        return KeyMade(issued, rows.NO_LIMITS, 0, enforced=True)
    return KeyMade(issued, rows.limits_of(row), row.revision, enforced=enforcing.put_in_force(row, new=True))


def _tenant_key_or_refusal(
    asking: AskingKey,
    scopes: list[str],
    label: str | None,
    expires_at: datetime | None,
    limits: dict[CapPeriod, int | None],
    *,
    actor: str,
) -> tuple[IssuedKey, SpendCap | None] | Refusal:
    maker = _maker(asking)
    if isinstance(maker, Refusal):
        return maker
    fault = (
        _wider_fault(maker, scopes, expires_at)
        or _amounts_fault(limits)
        or _too_many_fault(asking.tenant_id, takes_a_place=True)
    )
    if fault is not None:
        return fault
    issued = services.issue_key(
        tenant_id=asking.tenant_id, scopes=scopes, label=label, expires_at=expires_at or maker.expires_at, actor=actor
    )
    if isinstance(issued, Refusal) or all(limit is None for limit in limits.values()):
        return issued if isinstance(issued, Refusal) else (issued, None)
    full = {**rows.NO_LIMITS, **limits}
    return issued, setting.write_first(asking.tenant_id, issued.key.lineage_id, full, actor=actor)


def rotate_key(*, asking: AskingKey, key_id: uuid.UUID, grace: timedelta, actor: str) -> KeyMade | Refusal:
    """A successor of the asking key itself, or of one that is no wider; it ends with the key that asks at the latest.

    Caps, and what is counted, stay with the lineage. Not idempotent: the second of two finds a key with a successor.
    """
    with transaction.atomic(durable=True):
        maker = _maker(asking)
        if isinstance(maker, Refusal):
            return maker
        key = ApiKey.objects.filter(tenant_id=asking.tenant_id, key_id=key_id).first()
        if key is None:
            return _unknown()
        if key.pk != maker.pk:
            fault = _wider_fault(maker, key.scopes, None)
            if fault is not None:
                return Refusal(ReasonCode.CAPS_PROTECTED, f"The key that is to be rotated is wider: {fault.detail}")
        fault = _too_many_fault(asking.tenant_id, takes_a_place=grace > timedelta())
        if fault is not None:
            return fault
        issued = services.rotate_key(key_id=key_id, grace=grace, ends_by=maker.expires_at, actor=actor)
        if isinstance(issued, Refusal):
            return issued
        row = rows.row_of(asking.tenant_id, key.lineage_id)
    enforced = row is None or enforcing.put_in_force(row)
    return KeyMade(issued, rows.limits_of(row), 0 if row is None else row.revision, enforced)


def revoke_key(*, asking: AskingKey, key_id: uuid.UUID, actor: str) -> ApiKey | Refusal:
    """Revoke a key of the tenant, the asking one too. Safe to repeat."""
    with transaction.atomic(durable=True):
        maker = _maker(asking)
        if isinstance(maker, Refusal):
            return maker
        if not ApiKey.objects.filter(tenant_id=asking.tenant_id, key_id=key_id).exists():
            return _unknown()
        return services.revoke_key(key_id=key_id, actor=actor)


@dataclass(frozen=True, slots=True)
class KeyPage:
    keys: list[ApiKey]
    next: tuple[datetime, uuid.UUID] | None


def page_of(keys: QuerySet[ApiKey], *, after: tuple[datetime, uuid.UUID] | None, limit: int) -> KeyPage:
    """Newest first."""
    if after is not None:
        at, key_id = after
        keys = keys.filter(Q(created_at__lt=at) | Q(created_at=at, key_id__lt=key_id))
    found = list(keys.order_by("-created_at", "-key_id")[: limit + 1])
    last = found[limit - 1] if len(found) > limit else None
    return KeyPage(found[:limit], None if last is None else (last.created_at, last.key_id))


def _maker(asking: AskingKey) -> ApiKey | Refusal:
    """The asking key as it stands, under its tenant's row lock."""
    Tenant.objects.select_for_update(no_key=True).get(tenant_id=asking.tenant_id)
    return who.capped_fault(asking) or who.standing_key(asking)


def _too_many_fault(tenant_id: str, *, takes_a_place: bool) -> Refusal | None:
    """Each key leaves rows, and with caps a scope in Redis, for good; what is made and revoked in turns is bounded."""
    if takes_a_place and who.live_keys(tenant_id).count() >= LIVE_KEYS_MAX:
        detail = f"{tenant_id} has {LIVE_KEYS_MAX} keys that are alive, the most there may be; revoke some"
        return Refusal(ReasonCode.CONFLICT, detail, "key")
    if ApiKey.objects.filter(tenant_id=tenant_id, created_at__gt=clock.now() - A_DAY).count() >= KEYS_A_DAY_MAX:
        detail = f"{tenant_id} had {KEYS_A_DAY_MAX} keys made in the last 24 hours, the most there may be; ask later"
        return Refusal(ReasonCode.CONFLICT, detail, "key")
    return None


def _wider_fault(maker: ApiKey, scopes: Iterable[str], expires_at: datetime | None) -> Refusal | None:
    """What a key may not have that this one makes."""
    if Scope.KEYS_WRITE in scopes:
        return invalid("scopes", "a key made over the API never carries keys:write; an operator can make one")
    missing = [scope for scope in scopes if scope in set(Scope) and scope not in maker.scopes]
    if missing:
        return invalid("scopes", f"{maker} lacks {missing[0]}, and makes no key that is wider than itself")
    if expires_at is not None and maker.expires_at is not None and expires_at > maker.expires_at:
        return invalid("expires_at", f"must not lie after {maker.expires_at.isoformat()}, when {maker} ends")
    return None


def _amounts_fault(limits: dict[CapPeriod, int | None]) -> Refusal | None:
    faults = (setting.amount_fault(f"caps.{period}_usd", limits[period]) for period in limits)
    return next((fault for fault in faults if fault is not None), None)


def _unknown() -> Refusal:
    return Refusal(ReasonCode.NOT_FOUND, "there is no such key", "key")
