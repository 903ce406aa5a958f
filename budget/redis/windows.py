"""The windows that spend is counted in: a day, its week from Monday, its month, and all time. Pure.

A run belongs to one date, which the database gives it at accept. The scripts take that date as one word of 16 digits:
YYYYMMDD of the date, then YYYYMMDD of its Monday. They compare such words and their parts, and know no calendar.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from types import MappingProxyType
from typing import Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

CapPeriod = Literal["day", "week", "month", "total"]

PERIODS: Final[tuple[CapPeriod, ...]] = ("day", "week", "month", "total")

UNDATED: Final = "0" * 16
"""What a scope's date is before its first run: earlier than every date."""

_PARTS: Final[Mapping[CapPeriod, slice]] = MappingProxyType(
    {"day": slice(0, 8), "week": slice(8, 16), "month": slice(0, 6), "total": slice(0, 0)}
)


@dataclass(frozen=True, slots=True)
class Counted:
    """Where a run's money counts: in its tenant's scope, and in that of the lineage of the key that submitted it."""

    lineage_id: str | None
    """None: no known key submitted the run, and it counts for the tenant only."""
    day: date | None
    """None: it was accepted before spend was counted, and it counts nowhere."""


NOWHERE: Final = Counted(None, None)


@dataclass(frozen=True, slots=True)
class LeastRevisions:
    """The newest change of caps the caller knows of, of each scope; 0 where it knows of no cap.

    A scope that is lost, or has an older revision, is not held against: it is rebuilt first.
    """

    tenant: int = 0
    key: int = 0


NO_CAPS_KNOWN: Final = LeastRevisions()


def monday_of(day: date) -> date:
    return day - timedelta(days=day.weekday())


def date_number(day: date | None) -> str:
    """The date as the scripts take it; empty where the run counts nowhere."""
    return "" if day is None else f"{day:%Y%m%d}{monday_of(day):%Y%m%d}"


def day_of(number: str) -> date | None:
    """The date of such a word; None where it holds none. ValueError for what is no such word."""
    if number in ("", UNDATED):
        return None
    if len(number) != len(UNDATED) or not (number.isascii() and number.isdigit()):
        raise ValueError(f"a date of 16 digits was expected, not {number!r}")
    day = date(int(number[:4]), int(number[4:6]), int(number[6:8]))
    if date_number(day) != number:
        raise ValueError(f"{number!r} does not name the Monday of its date")
    return day


def cap_window(number: str, period: CapPeriod) -> str:
    """The window of this period that a date lies in: two dates share it where these are equal."""
    return number[_PARTS[period]]


def window_start(day: date, period: CapPeriod) -> date | None:
    """The first date of the window; None for all time."""
    starts: dict[CapPeriod, date | None] = {
        "day": day,
        "week": monday_of(day),
        "month": day.replace(day=1),
        "total": None,
    }
    return starts[period]


def clock_of(zone: str) -> tzinfo:
    """A zone as it is shown. UTC where this machine knows none of that name, as Postgres dates runs that knows none:
    a name is checked when it is set, and forgotten by later machines.
    """
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: it names a folder of zones, such as Europe
        return UTC


def resets_at(day: date, period: CapPeriod, zone: str) -> datetime | None:
    """When the window of this date ends: at local midnight. Shown, and nothing is decided by it; None for all time.

    A day has 23 or 25 hours where the zone's clocks change. Where they skip midnight itself, the day begins later.
    """
    next_start: dict[CapPeriod, date | None] = {
        "day": day + timedelta(days=1),
        "week": monday_of(day) + timedelta(days=7),
        "month": (day.replace(day=1) + timedelta(days=32)).replace(day=1),
        "total": None,
    }
    ends = next_start[period]
    return None if ends is None else _midnight(ends, clock_of(zone))


def _midnight(day: date, zone: tzinfo) -> datetime:
    """The first moment of this date there. A midnight that the clocks skip is read as the moment they do."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC).astimezone(zone)
