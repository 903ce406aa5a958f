"""When the notes of used keys are written: soon after the first, then at most once a minute."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from tenants.last_used import LastUsed

AT = datetime(2026, 3, 1, tzinfo=UTC)


class Schedule:
    def __init__(self) -> None:
        self.at = 500.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def run_later(self, seconds: float, flush: Callable[[], None]) -> None:
        self.due.append((self.at + seconds, flush))


@pytest.fixture
def schedule() -> Schedule:
    return Schedule()


@pytest.fixture
def last_used(schedule: Schedule, monkeypatch: pytest.MonkeyPatch) -> LastUsed:
    monkeypatch.setattr("tenants.last_used._write_last_used", lambda _seen: None)
    return LastUsed(run_later=schedule.run_later, monotonic=lambda: schedule.at)


def test_auth_last_used_many_uses_wait_for_one_write(last_used: LastUsed, schedule: Schedule) -> None:
    for _ in range(100):
        last_used.note(uuid4(), AT)
    assert [due for due, _ in schedule.due] == [501.0]


def test_auth_last_used_second_write_is_a_minute_after_the_first(last_used: LastUsed, schedule: Schedule) -> None:
    last_used.note(uuid4(), AT)
    schedule.at = 501.0
    last_used.flush()
    schedule.at = 502.0
    last_used.note(uuid4(), AT)
    assert [due for due, _ in schedule.due] == [501.0, 561.0]


def test_auth_last_used_nothing_is_due_while_no_key_is_used(last_used: LastUsed, schedule: Schedule) -> None:
    last_used.note(uuid4(), AT)
    last_used.flush()
    assert len(schedule.due) == 1


def test_auth_last_used_a_failed_write_is_let_go_and_the_next_one_armed(
    last_used: LastUsed, schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_seen: dict[UUID, datetime]) -> None:
        raise OSError("no database")

    monkeypatch.setattr("tenants.last_used._write_last_used", fail)
    last_used.note(uuid4(), AT)
    last_used.flush()
    last_used.note(uuid4(), AT)
    assert len(schedule.due) == 2
