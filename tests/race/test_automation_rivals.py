"""Pollers, dispatchers, buyers and enders two at a time: each event once, whoever is first."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import pytest
from django.db import connection, transaction

from ops.automations import transitions
from ops.automations.models import (
    AutomationAttempt,
    AutomationEvent,
    AutomationMessage,
    AutomationResult,
    AutomationRule,
    AutomationTask,
    NumberOfDay,
    SeenEvent,
)
from ops.automations.states import TaskOutcome
from ops.automations.tasks import bounds, buying, dispatching, ending
from runs.box.box import Box
from runs.models import Run
from tenants.models import Tenant
from tests.gear.builders import automations as gear
from tests.gear.builders.automation_shop import AutomationShop, an_automation_shop
from tests.gear.builders.recovery import tenant
from tests.gear.builders.work import session_box, worker_here
from tests.gear.faults.rivals import OnAnotherConnection, impatient
from tests.proving import proofs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-02", "LIF-05")]
__all__ = ["session_box", "tenant", "worker_here"]

FEW: Final = 12
MANY: Final = 1_000


@pytest.fixture
def shop(tenant: Tenant, worker_here: Box) -> AutomationShop:
    made = an_automation_shop(tenant)
    made.rule(usd_per_day="1000.0000", runs_per_hour=10_000, inputs={"cost_usd": "0.0010"}, max_cost_usd="0.0010")
    return made


@contextmanager
def at_once(*works: Callable[[], object]) -> Iterator[list[BaseException]]:
    ready, failed = threading.Barrier(len(works)), list[BaseException]()

    def run(work: Callable[[], object]) -> None:
        try:
            ready.wait(30)
            work()
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    yield failed


def polls(shop: AutomationShop, count: int) -> None:
    """What a look brings: every event, three times over."""
    for _ in range(3):
        for number in range(count):
            gear.emit(shop.source, f"e-{number}", cursor=str(number))


def twice(work: Callable[[], object]) -> None:
    with at_once(work, work) as failed:
        assert failed == []


@pytest.mark.timeout(300)
def test_lif_05_two_of_each_at_once_make_one_of_everything(shop: AutomationShop) -> None:
    twice(lambda: polls(shop, FEW))
    assert AutomationEvent.objects.count() == SeenEvent.objects.count() == FEW
    twice(lambda: dispatching.dispatch_due(limit=100))
    assert AutomationTask.objects.count() == FEW
    twice(lambda: buying.buy_due(limit=100))
    assert Run.objects.count() == AutomationAttempt.objects.filter(status="RUNNING").count() == FEW
    shop.work()
    twice(lambda: ending.end_due(limit=100))
    assert set(AutomationEvent.objects.values_list("outcome", flat=True)) == {"SUCCEEDED"}
    keys = AutomationMessage.objects.values_list("key", flat=True)
    assert len(set(keys)) == len(keys) == FEW
    assert shop.charged_micros() == FEW * 1_000
    numbers = AutomationTask.objects.values_list("number", flat=True)
    assert sorted(int(number[14:]) for number in numbers) == list(range(1, FEW + 1))
    assert NumberOfDay.objects.get(kind="task").last == FEW


@pytest.mark.contract("LIF-12")
def test_lif_12_two_dispatchers_keep_one_rules_hour(shop: AutomationShop) -> None:
    shop.rule(name="narrow", position=1, runs_per_hour=5)
    for number in range(FEW):
        gear.emit(shop.source, f"e-{number}")
    twice(lambda: dispatching.dispatch_due(limit=100))
    twice(lambda: buying.buy_due(limit=100))
    assert AutomationTask.objects.count() == Run.objects.count() == 5
    assert AutomationEvent.objects.filter(status="PENDING", waits_for="runs_per_hour").count() == FEW - 5


@pytest.mark.contract("LIF-12")
def test_lif_12_of_one_rule_one_counts_at_a_time(shop: AutomationShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that counted together would both find the hour's last run free."""
    counting, most, never, count = list[int](), list[int](), threading.Event(), bounds.runs_left

    def watched(rule: AutomationRule) -> int:
        counting.append(1)
        most.append(len(counting))
        never.wait(0.3)
        try:
            return count(rule)
        finally:
            counting.pop()

    monkeypatch.setattr(bounds, "runs_left", watched)
    for number in range(3):
        gear.emit(shop.source, f"e-{number}")
    twice(lambda: dispatching.dispatch_due(limit=100))
    assert max(most) == 1
    assert AutomationTask.objects.count() == 3


STAGES: Final[tuple[tuple[Any, Callable[..., int], Any], ...]] = (
    (AutomationEvent, dispatching.dispatch_due, AutomationTask),
    (AutomationTask, buying.start_due, AutomationAttempt),
    (AutomationAttempt, buying.submit_due, Run),
    (AutomationAttempt, ending.end_due, AutomationResult),
)
"""What is due, the pass over it, and what each of its rows leaves."""


def beside_a_lock(work: Callable[..., int]) -> int:
    def hurried() -> int:
        with impatient(50):
            return work(limit=10)

    return OnAnotherConnection(hurried).answer()


@pytest.mark.parametrize("at", range(len(STAGES)), ids=["dispatch", "start", "submit", "end"])
def test_lif_02_a_row_that_another_session_locks_holds_up_no_other(shop: AutomationShop, at: int) -> None:
    for number in range(2):
        gear.emit(shop.source, f"e-{number}")
    for _, work, _ in STAGES[:at]:
        work(limit=10)
    shop.work()
    table, work, made = STAGES[at]
    with transaction.atomic():
        table.objects.select_for_update().get(pk=table.objects.order_by("pk").values("pk")[:1])
        assert (beside_a_lock(work), made.objects.count()) == (2, 1)
    work(limit=10)
    assert made.objects.count() == 2


def test_lif_02_a_refusal_that_was_overtaken_ends_nothing(shop: AutomationShop) -> None:
    """Its lease had run out, and the process that took the attempt over may have a run accepted."""
    gear.emit(shop.source)
    dispatching.dispatch_due(limit=10)
    buying.start_due(limit=10)
    attempt = AutomationAttempt.objects.get()
    assert transitions.lease_attempt(attempt_pk=attempt.pk) is transitions.CasOutcome.WON
    attempt.refresh_from_db()
    assert attempt.lease_until is not None
    AutomationAttempt.objects.update(lease_until=attempt.lease_until + timedelta(seconds=40))
    ending.finish_task(attempt.task_id, outcome=TaskOutcome.FAILED, reason="AUTH_INVALID", refused=attempt)
    assert (shop.only_task().status, shop.attempts()) == ("IN_PROGRESS", [(1, "OPEN", None)])
    attempt.refresh_from_db()
    ending.finish_task(attempt.task_id, outcome=TaskOutcome.FAILED, reason="AUTH_INVALID", refused=attempt)
    assert (shop.only_task().outcome, shop.attempts()) == ("FAILED", [(1, "REFUSED", 0)])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_lif_05_a_thousand_events_delivered_three_times_by_two_pollers(shop: AutomationShop) -> None:
    twice(lambda: polls(shop, MANY))
    assert AutomationEvent.objects.count() == SeenEvent.objects.count() == MANY
    while AutomationEvent.objects.filter(status="PENDING").exists():
        twice(lambda: dispatching.dispatch_due(limit=200))
    numbers = set(AutomationTask.objects.values_list("number", flat=True))
    assert len(numbers) == AutomationTask.objects.count() == MANY
    proofs.report(cases=6 * MANY)
