"""Set, change and take away the caps of a tenant, or of a key with its rotations."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog
from django.db import transaction
from django.db.models.functions import Now

from budget.caps import enforcing, rows, who
from budget.caps.who import AskingKey
from budget.money import MAX_MICROS, AmountInvalid, checked_micros, format_usd
from budget.redis.windows import PERIODS, CapPeriod
from dpp_project.audit import trail
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from tenants import services
from tenants.models import ApiKey, SpendCap, Tenant
from tenants.scopes import OPERATOR_TENANT_ID

log = structlog.get_logger("dpp.budget")

CAPS_SET: Final = "spend caps set"


@dataclass(frozen=True, slots=True)
class CapsSet:
    """The caps stand in Postgres. `enforced`: and no process lets a hold past them any more."""

    limits: rows.CapLimits
    revision: int
    """0: there never was a cap."""
    enforced: bool
    changed: bool


def set_caps(
    *,
    tenant_id: str,
    lineage_id: uuid.UUID | None,
    changes: Mapping[CapPeriod, int | None],
    actor: str,
    reason: str = "",
    asking: AskingKey | None = None,
    dry_run: bool = False,
) -> CapsSet | Refusal:
    """A period given as None loses its limit; one that is not named keeps it. Key: the values.

    Order: one transaction locks the tenant, writes the row with the next revision and the trail; the script puts it in
    force; then it is answered. Dying before the commit changes nothing. Dying after it, or finding Redis away, leaves a
    row that is not in force: the next hold of a process that has read the principal since (4 s at most) brings its
    revision and has the tenant rebuilt; the same values set again raise no revision, and put it in force as well. Two
    changes at once take turns at the lock, and the later revision stands, whichever comes to Redis first.

    A lowered cap ends no hold, and stops the next. With all its limits taken away a scope goes on being counted.
    """
    fault = _caps_setting_fault(tenant_id, changes)
    if fault is not None:
        return fault
    # Durable: inside someone's transaction a cap could be in force in Redis whose row is rolled back.
    with transaction.atomic(durable=True):
        answer = _written_caps_or_refusal(tenant_id, lineage_id, changes, actor=actor, reason=reason, asking=asking)
        transaction.set_rollback(dry_run)
    if isinstance(answer, Refusal):
        return answer
    row, changed = answer
    if row is None:
        return CapsSet(rows.NO_LIMITS, 0, enforced=True, changed=False)
    enforced = not dry_run and enforcing.put_in_force(row)
    return CapsSet(rows.limits_of(row), row.revision, enforced, changed)


def change_settings(
    *, asking: AskingKey, changes: Mapping[services.BudgetSetting, Any], actor: str
) -> Tenant | Refusal:
    """The zone, and below what the balance is low, as a key changes them: a capped one does not.

    A zone further east ends the running day earlier, once.
    """
    with transaction.atomic(durable=True):
        Tenant.objects.select_for_update(no_key=True).get(tenant_id=asking.tenant_id)
        fault = who.ended_key_fault(asking) or who.capped_fault(asking)
        if fault is not None:
            return fault
        return services.change_budget_settings(tenant_id=asking.tenant_id, changes=changes, actor=actor)


def _caps_setting_fault(tenant_id: str, changes: Mapping[CapPeriod, int | None]) -> Refusal | None:
    if tenant_id == OPERATOR_TENANT_ID:
        return invalid("tenant_id", f"{tenant_id} runs the platform and spends nothing")
    for period in changes:
        fault = amount_fault(f"{period}_usd", changes[period])
        if fault is not None:
            return fault
    return None


def amount_fault(field: str, micros: int | None) -> Refusal | None:
    try:
        if micros is not None:
            checked_micros(micros, least=0)
    except AmountInvalid:
        return invalid(field, f"a cap lies between 0.0000 and {format_usd(MAX_MICROS)} USD, or is taken away")
    return None


def _written_caps_or_refusal(
    tenant_id: str,
    lineage_id: uuid.UUID | None,
    changes: Mapping[CapPeriod, int | None],
    *,
    actor: str,
    reason: str,
    asking: AskingKey | None,
) -> tuple[SpendCap | None, bool] | Refusal:
    if not Tenant.objects.select_for_update(no_key=True).filter(tenant_id=tenant_id).exists():
        return Refusal(ReasonCode.NOT_FOUND, f"there is no tenant {tenant_id}; see list_tenants", "tenant_id")
    keys_of_tenant = ApiKey.objects.filter(tenant_id=tenant_id)
    if lineage_id is not None and not keys_of_tenant.filter(lineage_id=lineage_id).exists():
        return Refusal(ReasonCode.NOT_FOUND, f"{tenant_id} has no such key", "key")
    fault = who.ended_key_fault(asking) or who.capped_fault(asking) or who.own_caps_fault(asking, lineage_id)
    if fault is not None:
        return fault
    row = rows.row_of(tenant_id, lineage_id)
    before = rows.limits_of(row)
    after = before | dict(changes)
    if after == before:
        return row, False
    if row is None:
        return write_first(tenant_id, lineage_id, after, actor=actor, reason=reason), True
    told: dict[str, object] = {}
    SpendCap.objects.filter(pk=row.pk).update(
        **rows.cap_columns(after), revision=row.revision + 1, actor=actor, changed_at=Now(), told=told
    )
    row.refresh_from_db()
    _record_caps_setting(row, before, actor=actor, reason=reason)
    return row, True


def write_first(
    tenant_id: str, lineage_id: uuid.UUID | None, limits: rows.CapLimits, *, actor: str, reason: str = ""
) -> SpendCap:
    """A scope's first caps, and their line in the trail; inside the caller's transaction."""
    row = SpendCap.objects.create(
        tenant_id=tenant_id, lineage_id=lineage_id, revision=1, actor=actor, **rows.cap_columns(limits)
    )
    _record_caps_setting(row, rows.NO_LIMITS, actor=actor, reason=reason)
    return row


def _record_caps_setting(row: SpendCap, was: rows.CapLimits, *, actor: str, reason: str) -> None:
    """Only what differs, in micros; the revision tells this change from every other."""
    limits = rows.limits_of(row)
    changed = [period for period in PERIODS if was[period] != limits[period]]
    trail.record_in_trail(
        CAPS_SET,
        actor=actor,
        subject=rows.scope_name(row.tenant_id, row.lineage_id),
        tenant_id=row.tenant_id,
        before={rows.cap_column(period): was[period] for period in changed},
        after={rows.cap_column(period): limits[period] for period in changed} | {"revision": row.revision},
        reason=reason,
    )
    facts = {"tenant_id": row.tenant_id, "lineage_id": str(row.lineage_id or ""), "revision": row.revision}
    transaction.on_commit(lambda: log.info(CAPS_SET, actor=actor, **facts))
