"""What is used, held and left of a cap adds up to it, and its window is named as a person names it."""

from datetime import date
from decimal import Decimal

import pytest

from budget.caps.figures import CapFigures
from budget.caps_page import CapBar

pytestmark = pytest.mark.contract("CAP-04")

DAY = date(2026, 11, 19)
FULL = "Full: no run is taken until something is left."


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


@pytest.mark.contract("CAP-16")
@pytest.mark.parametrize(
    ("limit", "used", "held", "widths", "note"),
    [
        (1_000_000, 0, 0, (0, 0), ""),
        (1_000_000, 300_000, 200_000, (300, 200), ""),
        (1_000_000, 300_000, 700_000, (300, 700), FULL),
        (100_000, 90_000, 50_000, (900, 100), FULL),
        (100_000, 200_000, 50_000, (1_000, 0), FULL),
        (0, 0, 0, (0, 0), "No run is taken."),
        (0, 5, 5, (0, 0), "No run is taken."),
    ],
)
def test_cap_16_a_bar_is_never_longer_than_its_cap(
    limit: int, used: int, held: int, widths: tuple[int, int], note: str
) -> None:
    bar = CapBar(CapFigures("key", "day", DAY, "UTC", limit, used, held))
    assert ((bar.used_width, bar.held_width), bar.note) == (widths, note)
    shown = dict(bar.amounts)
    assert list(shown) == ["limit", "used", "held", "left"]
    if used + held <= limit:
        assert Decimal(shown["used"]) + Decimal(shown["held"]) + Decimal(shown["left"]) == Decimal(shown["limit"])
