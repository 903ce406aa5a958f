"""Caps and spending as the console shows them: numbers and bars, of an account and of a key."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse

from budget.caps import key_spending, reading, rows
from budget.caps.figures import PERIOD_WORDS, CapFigures
from budget.money import format_exact_usd, format_plain_usd
from budget.outcomes import Unavailable
from budget.redis.windows import PERIODS
from tenants.key_page import KeyPanel
from tenants.models import ApiKey
from tenants.scopes import OPERATOR_TENANT_ID

WHOLE: Final = 1_000
"""The width of a bar."""


@dataclass(frozen=True, slots=True)
class CapBar:
    """One window, its amounts in words and its bar in thousandths of the limit; what is above the limit is cut off."""

    figures: CapFigures

    @property
    def when(self) -> str:
        return PERIOD_WORDS[self.figures.period]

    @property
    def amounts(self) -> list[tuple[str, str]]:
        it = self.figures
        shown = {"limit": it.limit_micros, "used": it.used_micros, "held": it.held_micros, "left": it.left_micros}
        return [(name, format_plain_usd(micros)) for name, micros in shown.items()]

    @property
    def note(self) -> str:
        if self.figures.limit_micros == 0:
            return "No run is taken."
        return "Full: no run is taken until something is left." if self.figures.left_micros == 0 else ""

    @property
    def used_width(self) -> int:
        return self._width(self.figures.used_micros)

    @property
    def held_width(self) -> int:
        return self._width(self.figures.used_micros + self.figures.held_micros) - self.used_width

    @property
    def ends(self) -> str:
        ends = self.figures.resets_at
        return "never resets" if ends is None else f"resets {ends:%Y-%m-%d %H:%M} ({self.figures.zone})"

    def _width(self, micros: int) -> int:
        limit = self.figures.limit_micros
        return 0 if limit == 0 else min(WHOLE, max(0, micros) * WHOLE // limit)


@dataclass(frozen=True, slots=True)
class CapCard:
    """A scope with its windows; without any it has no cap."""

    name: str
    link: str
    change: str
    bars: Sequence[CapBar]


def of_account(tenant_id: str) -> dict[str, Any]:
    """The tenant's own card first, then each key that has a cap; `known` is False while nobody can say."""
    stand = reading.caps_standing(tenant_id)
    seen = reading.counted_caps(stand)
    if isinstance(seen, Unavailable):
        return {"known": False, "cards": [], "zone": stand.zone}
    keys = rows.newest_keys(tenant_id, [uuid.UUID(scope) for scope in stand.scopes if scope is not None])
    tenant = CapCard(tenant_id, "", _change(tenant_id), _bars(reading.cap_figures(stand, None, seen.get(None))))
    others = [
        CapCard(_key_name_on_caps_page(key), _page_of(key), _change(tenant_id, lineage_id), bars)
        for lineage_id, key in keys.items()
        if (bars := _bars(reading.cap_figures(stand, str(lineage_id), seen.get(str(lineage_id)))))
    ]
    return {"known": True, "cards": [tenant, *others], "zone": stand.zone}


def of_key(key: ApiKey) -> Mapping[str, Any]:
    """What the key and its rotations spent, and its caps."""
    if key.tenant_id == OPERATOR_TENANT_ID:
        return {"spends": False}
    found = key_spending.spending_of(key.tenant_id, [key.lineage_id])
    change = _change(key.tenant_id, key.lineage_id)
    if isinstance(found, Unavailable):
        return {"spends": True, "known": False, "change": change}
    spending = found[key.lineage_id]
    return {
        "spends": True,
        "known": True,
        "spent": [(PERIOD_WORDS[period], format_exact_usd(spending.spent[period])) for period in PERIODS],
        "bars": _bars(spending.caps),
        "change": change,
    }


KEY_PANEL: Final = KeyPanel("admin/budget/key_caps.html", "budget.view_account", of_key)


def _bars(figures: Sequence[CapFigures]) -> list[CapBar]:
    return [CapBar(one) for one in figures]


def _key_name_on_caps_page(key: ApiKey) -> str:
    return f"{key} ({key.label})" if key.label else str(key)


def _page_of(key: ApiKey) -> str:
    return reverse("admin:tenants_apikey_change", args=[key.pk])


def _change(tenant_id: str, lineage_id: uuid.UUID | None = None) -> str:
    address = reverse("admin:budget_account_set_caps", args=[tenant_id])
    return address if lineage_id is None else f"{address}?{urlencode({'lineage': lineage_id})}"
