"""The rows of caps as they stand. They are written by setting.py alone."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from budget.redis.windows import PERIODS, CapPeriod
from tenants.models import ApiKey, SpendCap

CapLimits = Mapping[CapPeriod, int | None]

NO_LIMITS: Final[CapLimits] = dict.fromkeys(PERIODS)


def row_of(tenant_id: str, lineage_id: uuid.UUID | None) -> SpendCap | None:
    rows = SpendCap.objects.filter(tenant_id=tenant_id)
    if lineage_id is None:
        return rows.filter(lineage_id__isnull=True).first()
    return rows.filter(lineage_id=lineage_id).first()


def rows_of(tenant_id: str) -> dict[uuid.UUID | None, SpendCap]:
    """Every scope of the tenant that ever had a cap; None is the tenant itself."""
    return {row.lineage_id: row for row in SpendCap.objects.filter(tenant_id=tenant_id)}


def revision_of(tenant_id: str, lineage_id: uuid.UUID | None) -> int:
    """0 where the lineage, or a run without one, never had caps."""
    row = None if lineage_id is None else row_of(tenant_id, lineage_id)
    return 0 if row is None else row.revision


def limits_of(row: SpendCap | None) -> dict[CapPeriod, int | None]:
    return dict(NO_LIMITS) if row is None else {period: getattr(row, cap_column(period)) for period in PERIODS}


def cap_column(period: CapPeriod) -> str:
    return f"{period}_usd_micros"


def cap_columns(limits: CapLimits) -> dict[str, Any]:
    return {cap_column(period): limits[period] for period in PERIODS}


def is_capped(tenant_id: str, lineage_id: uuid.UUID | None) -> bool:
    """Whether this lineage has a limit of its own; the tenant's own limit counts for all its keys."""
    if lineage_id is None:
        return False
    return any(limit is not None for limit in limits_of(row_of(tenant_id, lineage_id)).values())


def newest_keys(tenant_id: str, lineages: Iterable[uuid.UUID]) -> dict[uuid.UUID, ApiKey]:
    """By which people know a lineage."""
    found = ApiKey.objects.filter(tenant_id=tenant_id, lineage_id__in=list(lineages)).order_by("created_at", "key_id")
    return {key.lineage_id: key for key in found}


def scope_name(tenant_id: str, lineage_id: uuid.UUID | None) -> str:
    """The scope as the audit trail and logs name it: a lineage by its newest key."""
    if lineage_id is None:
        return f"caps of tenant {tenant_id}"
    return f"caps of key {newest_keys(tenant_id, [lineage_id])[lineage_id]}"
