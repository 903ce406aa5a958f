"""What is used, held and left of a cap adds up to it, and its window is named as a person names it."""

from datetime import date

import pytest

from budget.caps.figures import CapFigures

pytestmark = pytest.mark.contract("CAP-04")

DAY = date(2026, 11, 19)


@pytest.mark.parametrize(
    ("period", "window", "resets_at"),
    [
        ("day", "2026-11-19", "2026-11-20T00:00:00+09:00"),
        ("week", "2026-11-16", "2026-11-23T00:00:00+09:00"),
        ("month", "2026-11", "2026-12-01T00:00:00+09:00"),
        ("total", "ever", None),
    ],
)
def test_cap_04_a_window_says_its_name_and_when_it_ends(period: str, window: str, resets_at: str | None) -> None:
    shown = CapFigures("key", period, DAY, "Asia/Seoul", 1_000_000, 300_000, 200_000).document()  # type: ignore[arg-type]
    assert (shown["window"], shown["resets_at"]) == (window, resets_at)
    assert shown["used_usd_micros"] + shown["held_usd_micros"] + shown["left_usd_micros"] == shown["limit_usd_micros"]
    assert (shown["used_usd"], shown["left_usd"]) == ("0.3000", "0.5000")


def test_cap_04_a_cap_below_what_is_used_leaves_nothing() -> None:
    assert CapFigures("tenant", "day", DAY, "UTC", 1, 300_000, 0).document()["left_usd_micros"] == 0
