"""Caps that are in force: of a tenant, or of a key with its rotations."""

from collections.abc import Mapping
from typing import Final

from budget.caps import setting
from budget.caps.setting import CapsSet
from budget.redis.windows import PERIODS, CapPeriod
from tenants import authentication
from tenants.models import ApiKey, Tenant
from tests.gear.builders.shop import Shop

FAR: Final[Mapping[CapPeriod, int | None]] = dict.fromkeys(PERIODS, 10**15)
"""So much that no test spends it: only what is counted is of interest."""


def put_in_force(tenant: Tenant, key: ApiKey | None = None, *, limits: Mapping[CapPeriod, int | None]) -> CapsSet:
    """And known to this process."""
    answer = setting.set_caps(
        tenant_id=tenant.pk,
        lineage_id=None if key is None else key.lineage_id,
        changes=limits,
        actor="test",
    )
    assert isinstance(answer, CapsSet)
    assert answer.enforced
    authentication.memory.forget()
    return answer


def count_everything(shop: Shop) -> Shop:
    """Tenant and key have every cap there is, and reach none: the law then includes what is counted under them."""
    put_in_force(shop.tenant, limits=FAR)
    put_in_force(shop.tenant, shop.issued.key, limits=FAR)
    return shop
