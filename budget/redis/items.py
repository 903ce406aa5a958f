"""What a rebuild writes: items, in batches of one tenant."""

from collections.abc import Sequence
from dataclasses import dataclass

from budget.redis import keys
from budget.redis.view import SeenCaps
from budget.redis.windows import PERIODS, UNDATED, date_number


@dataclass(frozen=True, slots=True)
class RebuildItem:
    """`hold`, `none` (an open run without a hold), `receipt`, `credit` or `caps`; the rest as in `lua/rebuild.lua`."""

    kind: str
    id: str
    first: int | str = 0
    second: int = 0

    def key_pair(self, tenant_id: str) -> tuple[str, str]:
        if self.kind == "caps":
            scope = keys.caps_key(tenant_id, self.id or None)
            return scope, scope
        if self.kind == "credit":
            return keys.credit_key(self.id), keys.credit_key(self.id)
        return keys.reserve_key(self.id), keys.receipt_key(self.id)


def caps_item(lineage_id: str | None, caps: SeenCaps | None) -> RebuildItem:
    """A scope as it must stand; None drops it."""
    return RebuildItem("caps", lineage_id or "", "" if caps is None else _numbers(caps))


def _numbers(caps: SeenCaps) -> str:
    limits = (caps.limits[period] for period in PERIODS)
    numbers = (
        caps.revision,
        date_number(caps.day) or UNDATED,
        *("-" if limit is None else limit for limit in limits),
        *(counters[period] for counters in (caps.counted, caps.used) for period in PERIODS),
    )
    return " ".join(str(number) for number in numbers)


@dataclass(frozen=True, slots=True)
class Batch:
    """`begin` drops the tenant's holds and sets its balance, before the items."""

    tenant_id: str
    balance_micros: int
    begin: bool
    items: Sequence[RebuildItem] = ()
