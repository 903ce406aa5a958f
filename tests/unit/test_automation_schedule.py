"""Once a day, whatever the clocks do."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from ops.automations.sources import daily

BERLIN = ZoneInfo("Europe/Berlin")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.contract("LIF-06")
@pytest.mark.parametrize(
    ("day", "at", "instant"),
    [
        (date(2026, 3, 28), time(2, 30), "2026-03-28T01:30"),
        (date(2026, 3, 29), time(2, 30), "2026-03-29T01:00"),  # 02:00 to 03:00 is left out: the jump itself
        (date(2026, 10, 25), time(2, 30), "2026-10-25T00:30"),  # 02:30 comes twice: the first
        (date(2026, 3, 29), time(3, 0), "2026-03-29T01:00"),
    ],
)
def test_lif_06_a_day_of_23_or_25_hours_has_its_schedule_once(day: date, at: time, instant: str) -> None:
    assert daily.first_instant(day, at=at, zone=BERLIN) == utc(instant)


@pytest.mark.contract("LIF-06")
@pytest.mark.parametrize("at", [time(0, 0), time(2, 30), time(3, 0), time(23, 59)])
def test_lif_06_each_date_of_every_zone_is_due_once(at: time) -> None:
    """Looked at each quarter of an hour for two years, each date is found, in order, and none before its time."""
    for name in sorted(available_timezones())[::23]:
        zone = ZoneInfo(name)
        now = utc("2025-12-31T00:00")
        found: list[date] = []
        while now < utc("2028-01-01T00:00"):
            due = daily.latest_daily_due(now, at=at, zone=zone)
            assert due.at <= now
            assert due.at.astimezone(zone).replace(tzinfo=None) >= datetime.combine(due.date, at)
            if not found or found[-1] != due.date:
                found.append(due.date)
            now += timedelta(hours=7)
        assert found == [found[0] + timedelta(days=number) for number in range(len(found))], name


def test_a_date_that_ends_before_its_time_is_due_as_it_ends() -> None:
    """Nuuk's clocks jump from 23:00 to midnight."""
    nuuk = ZoneInfo("America/Nuuk")
    assert daily.first_instant(date(2026, 3, 28), at=time(23, 30), zone=nuuk) == utc("2026-03-29T01:00")
    assert daily.latest_daily_due(utc("2026-03-29T01:00"), at=time(23, 30), zone=nuuk).date == date(2026, 3, 28)


def test_what_was_missed_for_days_is_due_once() -> None:
    before = daily.latest_daily_due(utc("2026-03-01T12:00"), at=time(9, 0), zone=BERLIN)
    after = daily.latest_daily_due(utc("2026-03-04T12:00"), at=time(9, 0), zone=BERLIN)
    assert (before.date, after.date) == (date(2026, 3, 1), date(2026, 3, 4))


def test_what_was_missed_at_midnight_is_due_after_it() -> None:
    due = daily.latest_daily_due(utc("2026-03-01T23:05"), at=time(23, 59), zone=BERLIN)
    assert (due.date, due.at) == (date(2026, 3, 1), utc("2026-03-01T22:59"))


def test_a_date_that_a_zone_left_out_does_not_come_twice() -> None:
    """Samoa had no 30 December 2011."""
    apia = ZoneInfo("Pacific/Apia")
    dates = {
        daily.latest_daily_due(utc("2011-12-29T00:00") + timedelta(hours=hours), at=time(9, 0), zone=apia).date
        for hours in range(96)
    }
    instants = [daily.first_instant(day, at=time(9, 0), zone=apia) for day in sorted(dates)]
    assert sorted(instants) == instants
    assert date(2011, 12, 31) in dates


def test_the_following_one_is_after_now() -> None:
    now = utc("2026-03-28T23:00")
    assert daily.following_daily_due(now, at=time(2, 30), zone=BERLIN).at == utc("2026-03-29T01:00")
    assert daily.following_daily_due(utc("2026-03-29T01:00"), at=time(2, 30), zone=BERLIN).at == utc("2026-03-30T00:30")
