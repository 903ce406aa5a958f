"""What a rebuild writes: items, in batches of one tenant."""

from collections.abc import Sequence
from dataclasses import dataclass

from budget.redis import keys


@dataclass(frozen=True, slots=True)
class RebuildItem:
    """`hold`, `none` (an open run without a hold), `receipt` or `credit`; the numbers as in `lua/rebuild.lua`."""

    kind: str
    id: str
    first: int = 0
    second: int = 0

    def key_pair(self) -> tuple[str, str]:
        if self.kind == "credit":
            return keys.credit(self.id), keys.credit(self.id)
        return keys.reserve(self.id), keys.receipt(self.id)


@dataclass(frozen=True, slots=True)
class Batch:
    """`begin` drops the tenant's holds and sets its balance, before the items."""

    tenant_id: str
    balance_micros: int
    begin: bool
    items: Sequence[RebuildItem] = ()
