"""One window of one scope, as every answer, message and page shows it: used + held + left = limit. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Literal

from budget.money import format_usd
from budget.redis.windows import CapPeriod, cap_window, date_number, resets_at

CapScope = Literal["tenant", "key"]
PERIOD_WORDS: Final[Mapping[CapPeriod, str]] = {
    "day": "today",
    "week": "this week",
    "month": "this month",
    "total": "ever",
}

LIMIT_WORDS: Final[Mapping[CapPeriod, str]] = {
    "day": "a day",
    "week": "a week",
    "month": "a month",
    "total": "in total",
}


@dataclass(frozen=True, slots=True)
class CapFigures:
    """`held_micros` is what runs under way may still cost; where a limit was lowered below both, nothing is left."""

    scope: CapScope
    period: CapPeriod
    day: date
    """A date of the window."""
    zone: str
    limit_micros: int
    used_micros: int
    held_micros: int

    @property
    def left_micros(self) -> int:
        return max(0, self.limit_micros - self.used_micros - self.held_micros)

    @property
    def window(self) -> str:
        """`2026-11-19`, the Monday `2026-11-16`, `2026-11`; `ever` for the total."""
        digits = cap_window(date_number(self.day), self.period)
        return "-".join(part for part in (digits[:4], digits[4:6], digits[6:]) if part) or "ever"

    @property
    def resets_at(self) -> datetime | None:
        return resets_at(self.day, self.period, self.zone)

    def document(self) -> dict[str, Any]:
        """As JSON has it: amounts in micros, exact, and in dollars for people."""
        amounts = {
            "limit": self.limit_micros,
            "used": self.used_micros,
            "held": self.held_micros,
            "left": self.left_micros,
        }
        ends = self.resets_at
        return {
            "scope": self.scope,
            "period": self.period,
            "window": self.window,
            **{f"{name}_usd_micros": micros for name, micros in amounts.items()},
            **{f"{name}_usd": format_usd(micros) for name, micros in amounts.items()},
            "zone": self.zone,
            "resets_at": None if ends is None else ends.isoformat().replace("+00:00", "Z"),
        }
