"""The worker's pool of slots: what a task may raise, and what a stop does with those at work (DPP-38, DPP-78)."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from billiard.einfo import ExceptionInfo
from kombu.asynchronous import Hub, set_event_loop

from dpp_project.celery_sqs.slots import TaskPool, TaskRaised
from dpp_project.processes import process_tree
from tests.gear.waiting import wait_until

SLOTS = 2


class Told:
    """What Celery was told, and by which thread."""

    def __init__(self) -> None:
        self.succeeded: list[Any] = []
        self.failed: list[BaseException] = []
        self.threads: set[int] = set()

    def success(self, found: Any) -> None:
        self.threads.add(threading.get_ident())
        self.succeeded.append(found)

    def failure(self, info: ExceptionInfo) -> None:
        self.threads.add(threading.get_ident())
        assert info.exception is not None
        self.failed.append(getattr(info.exception, "exc", info.exception))

    def count(self) -> int:
        return len(self.succeeded) + len(self.failed)


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub()
    set_event_loop(made)
    yield made
    made.close()
    set_event_loop(None)


@pytest.fixture
def pool(hub: Hub) -> Iterator[TaskPool]:
    made = TaskPool(SLOTS)
    made.start()
    made.register_with_event_loop(hub)
    yield made
    made.stop()


def give(pool: TaskPool, told: Told, task: Callable[[], Any]) -> None:
    pool.apply_async(task, callback=told.success, error_callback=told.failure, accept_callback=lambda *_: None)


def turn_until(hub: Hub, condition: Callable[[], bool]) -> None:
    def turned() -> bool:
        hub.run_once()
        return condition()

    wait_until(turned, what="the loop to get there")


@pytest.mark.contract("DPP-38")
@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseException()])
def test_dpp_38_a_slot_survives_whatever_its_task_raises(raised: BaseException, pool: TaskPool, hub: Hub) -> None:
    told = Told()

    def bad() -> None:
        raise raised

    for _ in range(2 * SLOTS):
        give(pool, told, bad)
    for number in range(SLOTS):
        give(pool, told, lambda number=number: number)  # type: ignore[misc]
    turn_until(hub, lambda: told.count() == 3 * SLOTS)
    assert sorted(told.succeeded) == list(range(SLOTS))
    assert [type(error) for error in told.failed] == [TaskRaised] * (2 * SLOTS)
    assert str(told.failed[0]) == type(raised).__name__


def test_worker_slots_leave_celerys_books_to_the_loop(pool: TaskPool, hub: Hub) -> None:
    told, ran = Told(), set()

    def task() -> None:
        ran.add(threading.get_ident())

    for _ in range(10):
        give(pool, told, task)
    turn_until(hub, lambda: told.count() == 10)
    assert told.threads == {threading.get_ident()}
    assert threading.get_ident() not in ran


def test_worker_slots_wake_a_loop_that_has_nothing_else_to_watch(pool: TaskPool, hub: Hub) -> None:
    """Without a descriptor kombu's loop sleeps 0.1 s at a time, and twenty tasks one after the other take two."""
    told, turns = Told(), 0
    for done in range(20):
        give(pool, told, lambda: None)
        while told.count() == done:
            hub.run_once()
            turns += 1
    assert turns <= 3 * 20


def test_worker_slots_go_on_when_celery_cannot_take_an_end(
    pool: TaskPool, hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()

    def unwell(_found: Any) -> None:
        raise ValueError("broken books")

    pool.apply_async(lambda: None, callback=unwell, error_callback=told.failure, accept_callback=lambda *_: None)
    give(pool, told, lambda: 1)

    def said() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "dpp.sqs"]

    turn_until(hub, lambda: told.count() == 1 and bool(said()))  # two slots: either end may come first
    assert said() == ["a task's end could not be handled, its message will repeat"]


@pytest.mark.contract("DPP-78")
def test_dpp_78_a_stop_acknowledges_each_end_at_once_and_begins_nothing(hub: Hub) -> None:
    """The loop does not run any more: the first ends during the stop, the second when the first is acknowledged."""
    pool, told = TaskPool(SLOTS), Told()
    pool.start()
    pool.register_with_event_loop(hub)
    stopping, first, begun = threading.Event(), threading.Event(), threading.Barrier(SLOTS + 1)

    def acknowledge(_found: object) -> None:
        """As the transport does: a timer of the loop sends the deletes."""
        hub.call_later(0.01, first.set)

    def early() -> str:
        begun.wait(10)
        assert stopping.wait(10)
        return "early"

    def late() -> str:
        begun.wait(10)
        assert first.wait(10), "the early one was not acknowledged during the drain"
        return "late"

    pool.apply_async(early, callback=acknowledge, error_callback=told.failure, accept_callback=None)
    give(pool, told, late)
    begun.wait(10)
    for _ in range(3):
        give(pool, told, lambda: "never")
    hub.call_later(0, stopping.set)
    pool.stop()
    assert told.succeeded == ["late"]
    assert told.failed == []


def test_worker_slots_a_process_that_grew_drains_as_on_sigterm(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *what: sent.append(what))
    monkeypatch.setattr(
        process_tree, "process_memory", lambda: process_tree.MemoryUse(mapped=0, private=201 * 1024, data=0)
    )
    for most_kib, expected in ((None, []), (201, []), (200, [(os.getpid(), signal.SIGTERM)])):
        pool = TaskPool(1, max_memory_per_child=most_kib)
        pool.start()
        pool._end_if_grown()
        pool._end_if_grown()  # a drain takes a while, and a second signal would kill
        assert sent == expected
        pool.stop()
