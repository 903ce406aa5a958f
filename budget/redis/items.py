"""What a rebuild writes, item by item."""

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
