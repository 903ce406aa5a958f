"""Dates as the scripts take them, and when a window ends."""

import itertools
from datetime import UTC, date, datetime, timedelta

import pytest

from budget.redis.windows import (
    PERIODS,
    UNDATED,
    CapPeriod,
    cap_window,
    date_number,
    day_of,
    monday_of,
    resets_at,
    window_start,
)

pytestmark = pytest.mark.contract("CAP-05")

FIRST = date(2024, 1, 1)
DAYS = [FIRST + timedelta(days=number) for number in range(2_000)]


def test_a_date_is_its_day_and_its_monday() -> None:
    assert date_number(date(2026, 5, 1)) == "2026050120260427"
    assert date_number(date(2027, 1, 1)) == "2027010120261228"
    assert date_number(None) == ""


def test_a_date_comes_back_from_its_number() -> None:
    assert [day_of(date_number(day)) for day in DAYS] == DAYS
    assert day_of("") is day_of(UNDATED) is None


@pytest.mark.parametrize(
    "wrong", ["1", "20260501", "2026050120260428", "2026023020260223", "٢" * 16, "2026050120260427 "]
)
def test_what_is_no_date_of_the_scripts_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        day_of(wrong)


def test_numbers_are_in_the_order_of_their_dates() -> None:
    numbers = [date_number(day) for day in DAYS]
    assert numbers == sorted(numbers)
    assert numbers[0] > UNDATED


@pytest.mark.parametrize("period", PERIODS)
def test_two_dates_share_a_window_where_it_has_one_start(period: CapPeriod) -> None:
    for one, next_day in itertools.pairwise(DAYS):
        shared = cap_window(date_number(one), period) == cap_window(date_number(next_day), period)
        assert shared is (window_start(one, period) == window_start(next_day, period))
    assert {monday_of(day).weekday() for day in DAYS} == {0}


@pytest.mark.parametrize(
    ("day", "zone", "hours", "offset"),
    [
        (date(2026, 3, 29), "Europe/Zurich", 23, "+02:00"),
        (date(2026, 10, 25), "Europe/Zurich", 25, "+01:00"),
        (date(2026, 3, 8), "America/New_York", 23, "-04:00"),
        (date(2026, 6, 1), "America/New_York", 24, "-04:00"),
        (date(2026, 6, 1), "UTC", 24, "+00:00"),
        # Midnight itself is skipped there: the next day begins at one o'clock.
        (date(2018, 11, 3), "America/Sao_Paulo", 24, "-02:00"),
        (date(2018, 11, 4), "America/Sao_Paulo", 23, "-02:00"),
    ],
)
def test_a_day_ends_at_local_midnight(day: date, zone: str, hours: int, offset: str) -> None:
    begins, ends = resets_at(day - timedelta(days=1), "day", zone), resets_at(day, "day", zone)
    assert begins is not None
    assert ends is not None
    assert ends.astimezone(UTC) - begins.astimezone(UTC) == timedelta(hours=hours)
    assert ends.isoformat().endswith(offset)
    assert ends.date() == day + timedelta(days=1)


@pytest.mark.parametrize("zone", ["Mars/Base", "Europe", "../UTC"])
def test_where_a_zone_is_unknown_a_day_ends_at_midnight_in_utc(zone: str) -> None:
    assert resets_at(date(2026, 6, 1), "day", zone) == datetime(2026, 6, 2, tzinfo=UTC)


def test_each_window_ends_where_its_successor_begins() -> None:
    def at(year: int, month: int, day: int) -> datetime:
        return datetime(year, month, day, tzinfo=UTC)

    ends = {period: resets_at(date(2026, 12, 30), period, "UTC") for period in PERIODS}
    assert ends == {"day": at(2026, 12, 31), "week": at(2027, 1, 4), "month": at(2027, 1, 1), "total": None}
    assert resets_at(date(2027, 1, 31), "month", "UTC") == at(2027, 2, 1)
