"""A loop of the process `events`: started again where it fails, with growing pauses, and watched for silence."""

import threading
import time
from collections.abc import Iterator

import pytest

from dpp_project.loops_server.host import LoopsHost
from dpp_project.loops_server.metrics import FAILURES
from dpp_project.loops_server.supervised_loop import GETS_ON_SECONDS, HANG_SECONDS, StopEvent, SupervisedLoop
from dpp_project.outbox.events import Loop
from tests.gear.waiting import wait_until


@pytest.fixture(autouse=True)
def _no_series_is_left() -> Iterator[None]:
    yield
    FAILURES.clear()


def failures_of(name: str) -> float:
    return float(FAILURES.labels(name)._value.get())


class Pauses(StopEvent):
    """Waits for nothing, and ends the loop after so many pauses."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.told: list[float] = []
        self._count = count

    def wait(self, timeout: float | None = None) -> bool:
        self.told.append(timeout or 0.0)
        if len(self.told) == self._count:
            self.set()
        return self.is_set()


def pauses(loop: Loop, count: int) -> list[float]:
    supervised = SupervisedLoop(loop)
    supervised.stop = stop = Pauses(count)
    supervised._run_on()
    return stop.told


def a_failure(_stop: threading.Event) -> None:
    raise RuntimeError("as planned")


def test_a_loop_that_raises_starts_again_after_a_quarter_second_doubling_to_five() -> None:
    before = failures_of("raises")
    assert pauses(Loop("raises", a_failure), 7) == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert failures_of("raises") == before + 7


def test_a_loop_that_failed_a_thousand_times_still_pauses_thirty_seconds() -> None:
    assert pauses(Loop("raises", a_failure), 1_100)[-1] == 5.0


@pytest.mark.parametrize("ends", [lambda _stop: None, lambda _stop: exec("raise SystemExit(3)")])  # noqa: S102
def test_a_loop_that_ends_by_itself_or_asks_to_exit_starts_again(ends: object) -> None:
    assert pauses(Loop("ends", ends), 3) == [0.25, 0.5, 1.0]  # type: ignore[arg-type]


def test_pauses_begin_anew_behind_a_loop_that_was_well(monkeypatch: pytest.MonkeyPatch) -> None:
    lives = iter([0.0, 1.0, 1.0, 2.0, 2.0, 62.0, 62.0, 63.0])  # begins and ends of four lives
    monkeypatch.setattr(time, "monotonic", lambda: next(lives))
    assert pauses(Loop("raises", a_failure), 4) == [0.25, 0.5, 0.25, 0.5]


def test_a_loop_that_is_told_to_stop_ends_and_has_not_failed() -> None:
    before = failures_of("good")

    def waits(stop: threading.Event) -> None:
        stop.wait()

    supervised = SupervisedLoop(Loop("good", waits))
    supervised.start()
    wait_until(lambda: supervised.stop.waiting, what="the loop to wait")
    assert not supervised.ended(seconds=0)
    supervised.stop.set()
    assert supervised.ended(seconds=5)
    assert failures_of("good") == before


def test_a_loop_that_asks_nothing_hangs_after_the_bound_and_one_that_waits_never() -> None:
    asks, go_on = threading.Event(), threading.Event()

    def runs(stop: threading.Event) -> None:
        asks.wait()
        stop.is_set()
        go_on.wait()
        stop.wait()

    supervised = SupervisedLoop(Loop("hangs", runs))
    supervised.start()
    wait_until(lambda: supervised.stop.questions == 1, what="the thread's own question")

    def seen(seconds: float) -> tuple[bool, bool]:
        supervised.look(seconds=seconds)
        return supervised.gets_on, supervised.hangs

    assert seen(1) == (True, False), "it has asked since the last look"
    assert seen(GETS_ON_SECONDS - 1) == (True, False)
    assert seen(1) == (False, False)
    assert seen(HANG_SECONDS - GETS_ON_SECONDS - 1) == (False, False)
    assert seen(1) == (False, True)
    asks.set()
    wait_until(lambda: supervised.stop.questions == 2, what="a question")
    assert seen(1) == (True, False)
    go_on.set()
    wait_until(lambda: supervised.stop.waiting, what="the loop to wait")
    assert [seen(10 * HANG_SECONDS) for _ in range(2)] == [(True, False)] * 2
    supervised.stop.set()
    assert supervised.ended(seconds=5)
    assert seen(10 * HANG_SECONDS) == (True, False), "an ended one is silent in order"


def test_a_process_that_slept_has_watched_its_loops_for_two_looks_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched:
        stop = StopEvent()
        gets_on, hangs = True, False

        def look(self, *, seconds: float) -> None:
            seen.append(seconds)

    seen: list[float] = []
    host = LoopsHost([])
    host._loops = [Watched()]  # type: ignore[list-item]
    told = iter([False, False, False, True])
    monkeypatch.setattr(host, "_is_told", lambda **_given: next(told))
    now = iter([0.0, 1.0, 1.0, 601.0, 601.0, 602.0, 602.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    assert host._watch() == []
    assert seen == [1.0, 2.0, 1.0]


def test_the_heartbeats_progress_stands_still_while_one_loop_does_not_get_on(monkeypatch: pytest.MonkeyPatch) -> None:
    host = LoopsHost([Loop("good", a_failure), Loop("silent", a_failure)])
    good, silent = host._loops

    def looked_at(*, silent_seconds: float) -> int:
        told = iter([False, True])
        monkeypatch.setattr(host, "_is_told", lambda **_given: next(told))
        monkeypatch.setattr(silent, "look", lambda **_given: setattr(silent, "silent_seconds", silent_seconds))
        assert host._watch() == []
        return host._progress

    good.stop.is_set()
    assert looked_at(silent_seconds=GETS_ON_SECONDS - 1) == 1
    good.stop.is_set()
    assert looked_at(silent_seconds=GETS_ON_SECONDS) == 1
    assert looked_at(silent_seconds=0) == 2


def test_two_loops_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two loops are called good"):
        LoopsHost([Loop("good", a_failure), Loop("good", a_failure)])
