"""When a schedule is due: once for each local date, at the first instant that its clock shows the time or a later one.

Pure. On a date whose clock jumps over the time (a zone lacks one 02:30 a year) that is the instant after the jump; on
one that shows it twice, the first. What is due is always the latest instant that has come: a process that was away at
09:00 finds it at 11:00, and one that was away for three days finds one, not three.
"""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dpp_project.lifecycle import days


@dataclass(frozen=True, slots=True)
class Due:
    """`date` is the local one, which names the event; `at` is the instant in UTC."""

    date: date
    at: datetime


def latest_daily_due(now: datetime, *, at: time, zone: ZoneInfo) -> Due:
    """The last instant at or before `now`."""
    today = now.astimezone(zone).date()
    # Local dates may lie a day apart from the instants' order only at the edges: two back are always enough.
    for back in range(3):
        day = today - timedelta(days=back)
        instant = first_instant(day, at=at, zone=zone)
        if instant <= now:
            return Due(day, instant)
    raise AssertionError("three dates without a due instant")


def following_daily_due(now: datetime, *, at: time, zone: ZoneInfo) -> Due:
    """The first instant after `now`."""
    due = latest_daily_due(now, at=at, zone=zone)
    for ahead in range(1, 4):
        day = due.date + timedelta(days=ahead)
        instant = first_instant(day, at=at, zone=zone)
        if instant > now:
            return Due(day, instant)
    raise AssertionError("three dates without a due instant")


def first_instant(day: date, *, at: time, zone: ZoneInfo) -> datetime:
    """The first instant of this local date whose clock shows `at` or later; where there is none, the next date's."""
    found = days.first_instant(day, zone, at) or days.first_instant(day + timedelta(days=1), zone)
    if found is None:
        raise AssertionError("two dates without an instant")
    return found
