"""Caps that are in force, of a tenant, or of a key with its rotations; and what a key has spent."""

import uuid
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Final

from budget.caps import setting
from budget.caps.setting import CapsSet
from budget.models import LedgerEntry
from budget.redis.windows import PERIODS, CapPeriod, cap_window, date_number
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


def spent_around_today(key: ApiKey, today: date) -> dict[CapPeriod, int]:
    """Charges of some days around today, and what they come to in each of its windows: never the same in two of them.

    What lies a day away is in the week in one direction at least, what lies seven away is in the month so.
    """
    sums = dict.fromkeys(PERIODS, 0)
    for place, days in enumerate((0, -1, 1, -7, 7, -40)):
        day, micros = today + timedelta(days=days), 10**place
        LedgerEntry.objects.create(
            tenant_id=key.tenant_id,
            run_id=uuid.uuid4(),
            kind=LedgerEntry.Kind.CHARGE,
            amount_usd_micros=-micros,
            actor="test",
            lineage_id=key.lineage_id,
            spend_day=day,
        )
        for period in PERIODS:
            if cap_window(date_number(day), period) == cap_window(date_number(today), period):
                sums[period] += micros
    assert len(set(sums.values())) == len(PERIODS)
    return sums
