"""What is on its way, as a comparison of scopes with the books takes it."""

import uuid
from datetime import date
from typing import Any

import pytest

from budget.ports import OpenRun
from budget.redis import windows
from budget.redis.view import Mark, SeenCaps, SeenMoney
from budget.redis.windows import PERIODS, Counted
from budget.verification import verify, verify_caps
from budget.verification.verify import Books, Sighting
from budget.verification.verify_caps import CapBooks

pytestmark = pytest.mark.contract("CAP-10")

TODAY = date(2026, 11, 19)
SCOPES, RUNS, HELD = 40, 2_000, 5


def test_cap_10_a_comparison_of_many_keys_adds_each_run_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it once for each scope, a tenant with thousands of keys and runs would take its verification minutes."""
    lineages = [str(uuid.UUID(int=at)) for at in range(SCOPES)]
    runs = {
        f"r{at}": OpenRun(
            "t", f"r{at}", HELD, 1, reserved=True, claimed=False, counted=Counted(lineages[at % SCOPES], TODAY)
        )
        for at in range(RUNS)
    }
    of_a_key = RUNS // SCOPES * HELD
    none, nothing = dict.fromkeys(PERIODS), dict.fromkeys(PERIODS, 0)
    caps = tuple(CapBooks(one, 1, none, nothing, is_new=False) for one in lineages)
    seen: dict[str | None, SeenCaps | None] = {
        one: SeenCaps(1, TODAY, none, dict.fromkeys(PERIODS, of_a_key), nothing) for one in lineages
    }
    money = SeenMoney(Mark("e", None, "1"), 1_000, dict.fromkeys(runs, HELD))
    asked: list[Any] = []
    real = windows.cap_window

    def counting(number: Any, period: Any) -> str:
        asked.append(number)
        return real(number, period)

    monkeypatch.setattr(verify_caps, "cap_window", counting)
    books = Books(1_000 + RUNS * HELD, runs, (), caps)
    assert list(verify.money_differences(books, Sighting(money, caps=seen))) == []
    assert len(asked) < 20 * SCOPES
