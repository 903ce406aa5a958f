"""Filters run beside the process that asks, each within bounds of time and memory that no stranger can pass."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from dpp_project.loops_server.supervised_loop import HANG_SECONDS
from ops.automations.models import AutomationEvent
from ops.automations.rules import filter_worker, filtering
from ops.automations.rules.filtering import FilterWorker
from ops.automations.tasks import dispatching
from runs.packs.compliance import limited_child
from tenants.models import Tenant
from tests.gear.builders.automation_shop import AutomationShop, an_automation_shop
from tests.gear.builders.recovery import tenant

pytestmark = [pytest.mark.contract("LIF-12")]
__all__ = ["tenant"]
SLOW: Final = 'event.labels.exists(one, event.text.matches("(a.{0,200}){3}x"))'
LARGE: Final = 'event.labels.map(one, event.text + "a").size() == 1'
HOSTILE: Final = {"text": "ab" * 200_000, "labels": [1] * 3_000}


@pytest.fixture
def worker() -> Iterator[FilterWorker]:
    made = FilterWorker()
    yield made
    made.end()


@pytest.mark.parametrize(
    ("filters", "event", "said"),
    [
        ([], {}, []),
        (["", "event.gone"], {}, [True]),
        (["event.a == 1", "", "event.gone"], {"a": 2}, [False, True]),
        (["event.gone", "event.a == 1", "event.a == 1"], {"a": 1}, ["NOT_FOUND", True]),
        (["event.a == 'Ünïcode 𝄞'", "event.a"], {"a": "Ünïcode 𝄞"}, [True]),
        (["event.a == 1"], {"a": 2**70}, ["INVALID_ARGUMENT"]),
        (["event.a == 1"], {"a": 1.5e308}, [False]),
        (["event.size() > 0"], {}, [False]),
        (["event.text.size() == 1000000"], {"text": "ü" * 1_000_000}, [True]),
        (["event.a +"], {}, ["CRASHED"]),
    ],
)
def test_lif_12_filters_are_answered_up_to_the_first_that_matches(
    filters: list[str], event: dict[str, Any], said: list[Any]
) -> None:
    assert filtering.answers_of_filters(filters, event) == said


def test_lif_12_a_filter_that_a_stranger_makes_slow_is_stopped(worker: FilterWorker) -> None:
    assert worker.ask(["event.labels == 1"], HOSTILE) == [False]
    began = time.process_time()
    assert worker.ask([SLOW, "event.labels[0] == 1"], HOSTILE) == ["TOO_SLOW", True]
    assert time.process_time() - began < 0.5, "none of it is this process's time"


def test_lif_12_an_events_filters_share_a_child_as_long_as_none_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child costs tens of milliseconds, a plain filter one."""
    children: list[float] = []
    run = limited_child.run_in_limited_child

    def counted(rule: Any, *, seconds: float) -> Any:
        children.append(seconds)
        return run(rule, seconds=seconds)

    monkeypatch.setattr(limited_child, "run_in_limited_child", counted)
    plain = [f"event.labels[{number}] == 2" for number in range(8)]
    assert list(filter_worker.evaluate_filters([*plain, "event.gone", "true", "false"], HOSTILE)) == [False] * 8 + [
        "NOT_FOUND",
        True,
    ]
    assert len(children) == 1
    assert list(filter_worker.evaluate_filters(["false", SLOW, "true"], HOSTILE)) == [False, "TOO_SLOW", True]
    assert len(children) == 1 + 4


def test_lif_12_a_filter_that_hoards_is_stopped(worker: FilterWorker) -> None:
    assert worker.ask([LARGE, "event.labels[0] == 1"], HOSTILE) == ["TOO_LARGE", True]


def test_lif_12_a_worker_that_was_killed_is_started_anew(worker: FilterWorker) -> None:
    for number in range(2):
        assert worker.ask(["event.a == 1"], {"a": number}) == [number == 1]
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)


def test_lif_12_a_worker_ends_with_its_standard_input(worker: FilterWorker) -> None:
    worker.ask(["event.a == 1"], {"a": 1})
    process = worker._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(30) == 0


def test_lif_12_several_threads_are_each_answered_their_own(worker: FilterWorker) -> None:
    said: dict[int, list[bool | str]] = {}

    def ask(number: int) -> None:
        said[number] = worker.ask([f"event.a == {number}", "event.a == 0"], {"a": number % 3})

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {number: [number % 3 == number, number % 3 == 0][: 1 if number < 3 else 2] for number in range(9)}


def test_lif_12_all_filters_of_an_event_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred rules of half a second each would keep a loop so long that it is taken for one that hangs."""
    assert list(filter_worker.evaluate_filters(["event.a == 2"] * 2, {"a": 1})) == [False, False]
    monkeypatch.setattr(filter_worker, "EVENT_SECONDS", 0.0)
    assert list(filter_worker.evaluate_filters(["event.a == 2"] * 2, {"a": 1})) == ["TOO_SLOW", "TOO_SLOW"]
    assert 2 * filtering.ANSWER_SECONDS < HANG_SECONDS
    assert filter_worker.EVENT_SECONDS + filter_worker.WALL_SECONDS < filtering.ANSWER_SECONDS


def test_lif_12_a_worker_that_is_silent_is_ended_and_its_event_is_not_judged_by_it(
    worker: FilterWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worker.ask(["event.a == 1"], {"a": 1}) == [True]
    silent = worker.pid
    assert silent is not None
    os.kill(silent, signal.SIGSTOP)
    monkeypatch.setattr(filtering, "ANSWER_SECONDS", 0.0)
    with pytest.raises(filtering.NotAnswered):
        worker.ask(["event.a == 1"], {"a": 1})
    monkeypatch.undo()
    assert worker.pid != silent
    assert worker.ask(["event.a == 2"], {"a": 1}) == [False], "not the answer that was not heard"


def test_lif_12_who_breaks_off_leaves_no_answer_to_the_next(
    worker: FilterWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks_off(*_: object) -> bytes:
        raise ValueError("as planned")

    worker.ask(["event.a == 1"], {"a": 1})
    monkeypatch.setattr(filtering, "_heard", breaks_off)
    with pytest.raises(ValueError, match="as planned"):
        worker.ask(["event.a == 1"], {"a": 1})
    assert worker.pid is None


@pytest.mark.django_db(transaction=True)
def test_lif_12_an_event_whose_filters_were_not_answered_waits(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> list[bool | str]:
        raise filtering.NotAnswered

    shop: AutomationShop = an_automation_shop(tenant)
    shop.rule(filter="event.a == 1")
    shop.event(payload={"a": 1})
    with monkeypatch.context() as patched:
        patched.setattr(filtering, "answers_of_filters", silent)
        dispatching.dispatch_due(limit=10)
    event = AutomationEvent.objects.get()
    assert (event.status, event.waits_for) == ("PENDING", "error")


@pytest.mark.django_db(transaction=True)
def test_lif_12_a_filter_that_is_stopped_buys_nothing_and_is_said_once(tenant: Tenant) -> None:
    """Nor does a rule behind it: the event's author would choose which of them spends."""
    shop: AutomationShop = an_automation_shop(tenant)
    shop.rule(filter=SLOW, position=1)
    shop.rule(name="second", filter="event.labels[0] == 1", position=2)
    for number in range(2):
        shop.event(f"e-{number}", payload=HOSTILE)
    dispatching.dispatch_due(limit=10)
    assert [(event.rule, event.outcome) for event in AutomationEvent.objects.all()] == [(None, "NO_RULE")] * 2
    (said,) = shop.bodies()
    assert said == "triage: its filter was stopped at e-0, which buys nothing: TOO_SLOW"
