"""What the door sees of caps before it makes a row: it refuses what the hold would refuse, and nothing else."""

from datetime import date

import pytest

from budget.caps.glance import first_full
from budget.redis.view import SeenCaps
from budget.redis.windows import PERIODS

pytestmark = pytest.mark.contract("CAP-03")

FRIDAY = date(2026, 7, 31)


def scope(**limits: int) -> SeenCaps:
    """100 of each window used, 50 held."""
    return SeenCaps(
        1,
        FRIDAY,
        {period: limits.get(period) for period in PERIODS},
        dict.fromkeys(PERIODS, 150),
        dict.fromkeys(PERIODS, 100),
    )


def test_cap_03_what_fits_to_the_micro_passes() -> None:
    full: dict[str | None, SeenCaps | None] = {"k": scope(day=200, total=200)}
    assert first_full(full, price_micros=50, day=FRIDAY) is None
    reached = first_full(full, price_micros=51, day=FRIDAY)
    assert reached is not None
    assert (reached.scope, reached.period, reached.left_micros, reached.held_micros) == ("key", "total", 50, 50)


@pytest.mark.parametrize(
    ("day", "full"),
    [
        (date(2026, 7, 31), "month"),
        (date(2026, 8, 1), "week"),
        (date(2026, 8, 3), "total"),
    ],
    ids=["the same day", "the month has ended, the week has not", "both have ended"],
)
def test_cap_03_a_window_that_has_ended_is_empty(day: date, full: str) -> None:
    seen = scope(day=160, week=160, month=160) if full != "total" else scope(day=160, week=160, month=160, total=160)
    reached = first_full({"k": seen}, price_micros=20, day=day)
    assert reached is not None
    assert (reached.period, reached.day) == (full, day)


def test_cap_03_an_earlier_date_than_the_scopes_begins_nothing() -> None:
    reached = first_full({None: scope(day=160)}, price_micros=20, day=date(2026, 7, 30))
    assert reached is not None
    assert (reached.scope, reached.day) == ("tenant", FRIDAY)


def test_cap_03_the_tenant_comes_first_and_what_is_not_known_is_left_to_the_hold() -> None:
    reached = first_full({"k": scope(total=1), None: scope(day=1)}, price_micros=20, day=FRIDAY)
    assert reached is not None
    assert (reached.scope, reached.period) == ("tenant", "day")
    untouched = SeenCaps(1, None, dict.fromkeys(PERIODS, 1), dict.fromkeys(PERIODS, 0), dict.fromkeys(PERIODS, 0))
    assert first_full({None: None, "k": untouched}, price_micros=20, day=FRIDAY) is None
