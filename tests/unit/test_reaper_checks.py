"""Recovery's times fit each other, and a change that breaks that is found at the start."""

import pytest

from dpp_project import constants
from reaper import checks
from runs import timing


def found() -> list[str | None]:
    return [fault.id for fault in checks.recovery_waits_long_enough(None)]


def test_the_times_as_they_are_fit() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("module", "name", "value", "fault"),
    [
        (timing, "FIRST_SEND_AGAIN_SECONDS", 120, "dpp.E011"),
        (timing, "RECONCILE_AFTER_SECONDS", 120, "dpp.E012"),
        (constants, "LEASE_TTL_SECONDS", 30, "dpp.E013"),
    ],
)
def test_times_that_do_not_fit_are_found(
    module: object, name: str, value: int, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, value)
    assert found() == [fault]
