"""The ticket reaper runs once a second; here its wait moves this process's clock instead."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from dpp_project import clock
from ops.tickets import reaper


class MovedClock(clock.SystemClock):
    def now(self) -> datetime:
        return super().now() + self.moved

    moved = timedelta()


@pytest.fixture(autouse=True)
def _the_next_second_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ours = MovedClock()

    def come(now: datetime) -> None:
        ours.moved += timedelta(seconds=1) - timedelta(microseconds=now.microsecond)

    monkeypatch.setattr(reaper, "wait_for_the_next_second", come)
    with clock.use_clock(ours):
        yield
