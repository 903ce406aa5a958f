"""Threads shared among sources: no number of requests of one keeps the others' waiting (HRD-10, HRD-12)."""

import threading
from collections.abc import Callable

import pytest

from dpp_project.api_server import fair_threads
from dpp_project.api_server.fair_threads import FairThreads, TooManyWaiting
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("HRD-10", "HRD-12")


class Work:
    """Pieces of work that stand in their threads until they are let go, one by one."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self._go = threading.Semaphore(0)

    def named(self, name: str) -> Callable[[], None]:
        def work() -> None:
            self.begun.append(name)
            self._go.acquire()
            self.ended.append(name)

        return work

    def end(self, count: int) -> None:
        before = len(self.ended)
        self._go.release(count)
        wait_until(lambda: len(self.ended) == before + count)


def test_hrd_12_one_source_never_has_all_threads() -> None:
    threads, work = FairThreads(3, name="test"), Work()
    for number in range(20):
        threads.run("greedy", work.named(f"greedy {number}"))
    wait_until(lambda: len(work.begun) == 2)
    threads.run("honest", work.named("honest"))
    wait_until(lambda: "honest" in work.begun)
    assert len(work.begun) == 3
    work.end(21)
    assert sorted(work.ended) == sorted([f"greedy {number}" for number in range(20)] + ["honest"])
    assert threads._lanes == {}
    threads.close()


def test_hrd_12_a_new_source_waits_for_few_of_each_other() -> None:
    threads, work = FairThreads(1, name="test"), Work()
    for number in range(50):
        threads.run("a", work.named(f"a{number}"))
        threads.run("b", work.named(f"b{number}"))
    wait_until(lambda: work.begun == ["a0"])
    threads.run("honest", work.named("honest"))
    work.end(4)
    assert "honest" in work.ended
    work.end(97)
    assert [name for name in work.ended if name[0] == "a"] == [f"a{number}" for number in range(50)]
    assert threads._lanes == {}
    threads.close()


def test_hrd_12_what_one_source_has_waiting_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_threads, "MAX_WAITING", 5)
    threads, work = FairThreads(3, name="test"), Work()
    for number in range(2):
        threads.run("greedy", work.named(str(number)))
    wait_until(lambda: len(work.begun) == 2)
    for number in range(5):
        threads.run("greedy", work.named(str(number)))
    with pytest.raises(TooManyWaiting):
        threads.run("greedy", work.named("one more"))
    threads.run("honest", work.named("honest"))
    work.end(8)
    assert "one more" not in work.begun
    threads.close()


def test_hrd_10_threads_are_stuck_when_all_are_taken_and_none_ends() -> None:
    threads, work = FairThreads(2, name="test"), Work()
    assert threads.seconds_stuck() == 0
    threads.run("a", work.named("a"))
    wait_until(lambda: work.begun == ["a"])
    assert threads.seconds_stuck() == 0
    threads.run("b", work.named("b"))
    wait_until(lambda: threads.seconds_stuck() > 0)
    threads.run("a", work.named("waits"))
    work.end(1)
    wait_until(lambda: len(work.begun) == 3)
    before = threads.seconds_stuck()
    wait_until(lambda: threads.seconds_stuck() > before)
    work.end(2)
    wait_until(lambda: threads.seconds_stuck() == 0)
    threads.close()
