"""When a local date's cleanup is due, in zones whose clocks jump (LIF-04)."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from dpp_project.lifecycle import days

pytestmark = pytest.mark.contract("LIF-04")

THREE, MIDNIGHT = days.CLEANUP_AT, days.MIDNIGHT


@pytest.mark.parametrize(
    ("zone", "day", "at", "instant"),
    [
        ("Asia/Seoul", date(2026, 3, 1), THREE, "2026-02-28T18:00"),
        ("UTC", date(2026, 3, 1), MIDNIGHT, "2026-03-01T00:00"),
        ("America/New_York", date(2026, 3, 8), THREE, "2026-03-08T07:00"),  # 02:00 became 03:00
        ("America/New_York", date(2026, 11, 1), THREE, "2026-11-01T08:00"),  # 01:00 twice, 03:00 once
        ("Africa/Casablanca", date(2026, 2, 15), THREE, "2026-02-15T03:00"),  # 03:00 became 02:00: the first of two
        ("Europe/Athens", date(2026, 3, 29), THREE, "2026-03-29T01:00"),  # 03:00 became 04:00: none, so 04:00
        ("Europe/Athens", date(2026, 10, 25), THREE, "2026-10-25T00:00"),  # 04:00 became 03:00: the first of two
        ("Australia/Lord_Howe", date(2026, 10, 4), THREE, "2026-10-03T16:00"),  # half an hour
        ("America/Sao_Paulo", date(2018, 11, 4), MIDNIGHT, "2018-11-04T03:00"),  # a day that began at 01:00
        ("Asia/Beirut", date(2026, 3, 29), MIDNIGHT, "2026-03-28T22:00"),
        ("Pacific/Apia", date(2011, 12, 30), THREE, None),  # a date that never was
        ("Pacific/Apia", date(2011, 12, 31), MIDNIGHT, "2011-12-30T10:00"),
    ],
)
def test_lif_04_the_first_instant_of_a_date(zone: str, day: date, at: time, instant: str | None) -> None:
    found = days.first_instant(day, ZoneInfo(zone), at)
    assert found == (None if instant is None else datetime.fromisoformat(instant).replace(tzinfo=UTC))


ODD = (
    "Europe/Athens",
    "Africa/Cairo",
    "Asia/Gaza",
    "America/Nuuk",
    "Antarctica/Troll",
    "Asia/Beirut",
    "America/Havana",
)


@pytest.mark.parametrize(
    "zone", [*ODD, "America/Havana", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca", "Asia/Tehran"]
)
@pytest.mark.parametrize("at", [THREE, MIDNIGHT])
def test_lif_04_it_is_the_first_moment_that_a_walk_through_the_year_meets(zone: str, at: time) -> None:
    found: dict[date, datetime] = {}
    zoned = ZoneInfo(zone)
    moment, end = datetime(2025, 12, 30, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC)
    while moment < end:
        local = moment.astimezone(zoned)
        if local.time() >= at:
            found.setdefault(local.date(), moment)
        moment += timedelta(minutes=30)
    walked = dict(sorted(found.items())[1:-1])
    assert {day: days.first_instant(day, zoned, at) for day in walked} == walked


@pytest.mark.parametrize(
    ("zone", "day", "at", "jump"),
    [
        ("America/New_York", date(2026, 3, 8), time(2, 30), datetime(2026, 3, 8, 7, tzinfo=UTC)),
        ("Australia/Lord_Howe", date(2026, 10, 4), time(2, 15), datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
    ],
)
def test_lif_04_a_time_within_a_gap_is_the_moment_of_the_jump(zone: str, day: date, at: time, jump: datetime) -> None:
    """Where a gap begins at the time itself, its old reading is the jump, too: the year above has no other."""
    assert days.first_instant(day, ZoneInfo(zone), at) == jump


def test_lif_04_the_latest_due_date_is_todays_from_its_instant_on_and_yesterdays_before() -> None:
    zone = ZoneInfo("Europe/Athens")
    due = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    before = due - timedelta(microseconds=1)
    assert days.latest_due(due, zone) == (date(2026, 3, 29), due)
    assert days.latest_due(before, zone) == (date(2026, 3, 28), datetime(2026, 3, 28, 1, 0, tzinfo=UTC))


def test_lif_04_behind_a_date_that_never_was_comes_the_one_before_it() -> None:
    zone = ZoneInfo("Pacific/Apia")
    at = datetime(2011, 12, 30, 10, 30, tzinfo=UTC)  # half past midnight of the 31st
    assert days.latest_due(at, zone)[0] == date(2011, 12, 29)
