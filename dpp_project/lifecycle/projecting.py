"""When a disk will be full, by how it grew: a straight line through the last days. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

DAYS: Final = 14
LEAST_POINTS: Final = 3
"""Two days may be a weekend."""
FULL_SHARE: Final = 0.9
SOON_DAYS: Final = 7.0


@dataclass(frozen=True, slots=True)
class DiskOutlook:
    used_bytes: int
    total_bytes: int | None
    bytes_a_day: float | None
    """None before there are enough days."""
    days_until_full: float | None
    """None where it does not grow, or where it cannot be said."""

    @property
    def alarms(self) -> str | None:
        if self.total_bytes is None:
            return None
        if self.used_bytes >= FULL_SHARE * self.total_bytes:
            return f"{100 * self.used_bytes / self.total_bytes:.0f} % full"
        if self.days_until_full is not None and self.days_until_full < SOON_DAYS:
            return f"full in {self.days_until_full:.1f} days as it grows"
        return None


def project_disk(points: Sequence[tuple[date, int]], total_bytes: int | None) -> DiskOutlook:
    """`points` in the order of their days; the last one is now."""
    used = points[-1][1]
    growth = bytes_a_day(points)
    if total_bytes is None or growth is None or growth <= 0:
        return DiskOutlook(used, total_bytes, growth, None)
    return DiskOutlook(used, total_bytes, growth, max(0.0, total_bytes - used) / growth)


def bytes_a_day(points: Sequence[tuple[date, int]]) -> float | None:
    """The slope of the line that lies nearest to the last DAYS days' points."""
    newest = points[-1][0]
    recent = [((day - newest).days, used) for day, used in points if (newest - day).days < DAYS]
    if len(recent) < LEAST_POINTS:
        return None
    middle_day = sum(day for day, _ in recent) / len(recent)
    middle_used = sum(used for _, used in recent) / len(recent)
    spread = sum((day - middle_day) ** 2 for day, _ in recent)
    return sum((day - middle_day) * (used - middle_used) for day, used in recent) / spread
