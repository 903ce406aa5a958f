"""A failure counts unless the machine stood still, and only then is a test run again."""

import time
from types import SimpleNamespace
from typing import Any

from tests.gear.stalls import LATE_SECONDS, TICK_SECONDS, TURNS, StallWatch, run_with_turns, seconds_nobody_ran, summary


def watch_of(*waits: float) -> StallWatch:
    """A watch whose waits take so long."""
    now, left = [0.0], list(waits)

    def wait(_seconds: float) -> None:
        now[0] += left.pop(0)

    return StallWatch(clock=lambda: now[0], wait=wait, nobody_ran=lambda: 0.0)


def report(*, failed: bool) -> Any:
    return SimpleNamespace(failed=failed)


def test_a_wait_that_is_far_too_long_is_a_stall_and_a_late_one_is_none() -> None:
    watch = watch_of(TICK_SECONDS, TICK_SECONDS + LATE_SECONDS * 0.9, 30.0)
    for _ in range(2):
        watch.look_once()
    assert watch.stalls == 0
    watch.look_once()
    assert watch.stalls == 1


def test_a_disk_that_takes_nothing_is_a_stall_and_a_slow_one_is_none() -> None:
    now, lost = [0.0], [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    watch = StallWatch(clock=lambda: now[0], wait=wait, nobody_ran=lambda: lost[0])
    for _ in range(1_000):  # fifty seconds, of which five are lost
        lost[0] += 0.005
        watch.look_once()
    assert watch.stalls == 0
    lost[0] += LATE_SECONDS * 1.1
    for _ in range(3):
        watch.look_once()
    assert watch.stalls == 1


def test_what_linux_counts_grows_and_is_in_seconds() -> None:
    before = seconds_nobody_ran()
    assert 0 <= before <= seconds_nobody_ran() < time.monotonic() + 60


def test_a_failure_without_a_stall_is_told_at_once() -> None:
    turns: list[int] = []

    def run() -> list[Any]:
        turns.append(1)
        return [report(failed=True)]

    reports, given_up = run_with_turns(run, watch_of())
    assert (len(turns), given_up, reports[0].failed) == (1, 0, True)


def test_a_failure_in_a_stall_is_run_again_and_named() -> None:
    watch = watch_of(60.0)
    answers = [report(failed=True), report(failed=False)]

    def run() -> list[Any]:
        if len(answers) == 2:
            watch.look_once()
        return [answers.pop(0)]

    reports, given_up = run_with_turns(run, watch)
    assert (given_up, reports[0].failed) == (1, False)
    named = SimpleNamespace(nodeid="tests/a.py::b", user_properties=[("stalled", given_up)])
    assert summary(iter([named])) == ["tests/a.py::b: run again 1 times, since the machine stood still"]


def test_a_machine_that_stands_still_each_time_does_not_make_a_failure_a_success() -> None:
    watch = watch_of(*[60.0] * TURNS)

    def run() -> list[Any]:
        watch.look_once()
        return [report(failed=True)]

    reports, given_up = run_with_turns(run, watch)
    assert (given_up, reports[0].failed, watch.stalls) == (TURNS - 1, True, TURNS)
