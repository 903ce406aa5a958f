"""Days of a month as bars of an SVG: no script, and nothing that a printed page would lose."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from budget.usage.reading import UsageTotals

HEIGHT: Final = 100
STEP: Final = 20
WIDTH: Final = 14


@dataclass(frozen=True, slots=True)
class DayBar:
    day: date
    net_micros: int
    x: int
    y: int
    height: int


def day_bars(days: Sequence[tuple[date, UsageTotals]]) -> list[DayBar]:
    """Whole numbers: a bar is cut down, and one that is not nothing is seen."""
    most = max((max(0, total.net_micros) for _, total in days), default=0)
    bars = []
    for place, (day, total) in enumerate(days):
        net = max(0, total.net_micros)
        height = 0 if net == 0 else max(1, net * HEIGHT // most)
        bars.append(DayBar(day, total.net_micros, place * STEP, HEIGHT - height, height))
    return bars
