"""When a day's cleanup is due: at the first instant of a local date at which its clocks show 03:00 or later.

Zones have days without a 03:00, with two of them, and dates that never were. Pure.
"""

from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

CLEANUP_AT: Final = time(3)
MIDNIGHT: Final = time(0)
_LOOK_BACK_DAYS: Final = 3


def first_instant(day: date, zone: ZoneInfo, at: time = MIDNIGHT) -> datetime | None:
    """The first moment of this local date that is `at` or later; None where its clocks never showed one."""
    wanted = datetime.combine(day, at)
    found = wanted.replace(tzinfo=zone).astimezone(UTC)  # of a time that comes twice, the first
    if _local(found, zone) != wanted:
        found = _end_of_gap(wanted, zone)
    return found if _local(found, zone).date() == day else None


def latest_due(moment: datetime, zone: ZoneInfo, at: time = CLEANUP_AT) -> tuple[date, datetime]:
    """The newest local date whose instant has come, and that instant."""
    today = moment.astimezone(zone).date()
    for back in range(_LOOK_BACK_DAYS):
        day = today - timedelta(days=back)
        instant = first_instant(day, zone, at)
        if instant is not None and instant <= moment:
            return day, instant
    raise ValueError(f"{zone.key} had no such time for {_LOOK_BACK_DAYS} days")


def _local(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _end_of_gap(wanted: datetime, zone: ZoneInfo) -> datetime:
    """Clocks jumped over `wanted`: the moment of the jump lies between its readings by the offsets before and after."""
    before = wanted.replace(tzinfo=zone, fold=1).astimezone(UTC)
    after = wanted.replace(tzinfo=zone, fold=0).astimezone(UTC)
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) // 2
        if _local(middle, zone) >= wanted:
            after = middle
        else:
            before = middle
    return after.replace(microsecond=0)
