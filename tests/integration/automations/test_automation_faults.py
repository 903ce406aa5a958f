"""What fails by a fault of the platform's own is tried for a day, said meanwhile, and has failed then."""

from collections.abc import Callable

import pytest
from django.db.models import F
from django.db.models.functions import Now

from dpp_project.lifecycle import alarming
from dpp_project.process_env import ENV
from ops.automations.models import AutomationAttempt, AutomationEvent, AutomationTask, SeenEvent
from ops.automations.notify import telling
from ops.automations.tasks import bounds, buying, dispatching, ending, faults, submitting
from runs.box.box import Box
from runs.bucket.storage import RunStorage
from runs.models import Run
from tenants.models import Tenant
from tests.gear.builders import automations as gear
from tests.gear.builders.automation_shop import AutomationShop, an_automation_shop
from tests.gear.builders.recovery import tenant
from tests.gear.builders.work import session_box, worker_here

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-02")]
__all__ = ["session_box", "tenant", "worker_here"]

DELAYS = [30, 60, 300, 900] + [3_600] * 23
FAULT = "a fault of the platform's own, for a day: KeyError; the log has it"


@pytest.fixture
def shop(tenant: Tenant, worker_here: Box, monkeypatch: pytest.MonkeyPatch) -> AutomationShop:
    monkeypatch.setattr(telling, "ENV", ENV.model_copy(update={"DPP_AUTOMATIONS_NOTIFY": "slack:C09"}))
    return an_automation_shop(tenant)


def fails(*_: object, **__: object) -> None:
    raise KeyError("a stranger's words")


def standing() -> dict[str, str]:
    alarming.look_at_all()
    return {alarm.subject: alarm.said for alarm in alarming.standing_alarms() if alarm.name == "automations_failing"}


def again(row: AutomationEvent | AutomationTask, work: Callable[[], object]) -> int:
    """One more turn, as if the wait before it were over. Answers the seconds that it is put off by."""
    rows = type(row).objects.filter(pk=row.pk)
    rows.update(next_try_at=Now(), version=F("version") + 1)
    work()
    found = rows.annotate(now=Now()).get()
    return round((found.next_try_at - found.now).total_seconds())


def dispatch() -> None:
    dispatching.dispatch_due(limit=10)


def test_lif_02_an_event_that_fails_is_tried_for_a_day_and_has_failed_then(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rule()
    event = shop.event()
    monkeypatch.setattr(bounds, "money_fault", fails)
    for number, seconds in enumerate(DELAYS, start=1):
        assert again(event, dispatch) == seconds, number
        assert len(standing()) == (number >= 4), number
    assert sum(DELAYS) < 24 * 3_600
    assert standing() == {"events of hooks": "1 not dispatched, by a fault of the platform's own; the log has it"}
    event.refresh_from_db()
    assert (event.status, event.waits_for, event.faults) == ("PENDING", "error", 27)
    assert shop.bodies() == []
    again(event, dispatch)
    event.refresh_from_db()
    assert (event.status, event.outcome, event.reason) == ("COMPLETED", "FAILED", FAULT)
    assert SeenEvent.objects.get().outcome == "FAILED"
    assert (standing(), AutomationTask.objects.count(), Run.objects.count()) == ({}, 0, 0)
    assert shop.bodies() == [f"Event e-1 of hooks: {FAULT}"]


def test_lif_02_what_a_flood_of_events_failed_by_is_said_once(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rule()
    monkeypatch.setattr(bounds, "money_fault", fails)
    for number in range(3):
        shop.event(f"e-{number}")
    AutomationEvent.objects.update(faults=27, version=F("version") + 1)
    dispatch()
    assert set(AutomationEvent.objects.values_list("outcome", flat=True)) == {"FAILED"}
    assert shop.bodies() == [f"Event e-0 of hooks: {FAULT}"]


def test_lif_02_an_event_whose_fault_is_mended_goes_on_and_counts_anew(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rule(runs_per_hour=1)
    shop.event("first")
    dispatch()
    event = shop.event()
    with monkeypatch.context() as broken:
        broken.setattr(bounds, "money_fault", fails)
        for _ in range(5):
            again(event, dispatch)
    assert list(standing()) == ["events of hooks"]
    again(event, dispatch)
    event.refresh_from_db()
    assert (event.waits_for, event.faults, standing()) == ("runs_per_hour", 0, {})
    monkeypatch.setattr(bounds, "money_fault", fails)
    assert again(event, dispatch) == DELAYS[0]


def test_lif_02_a_task_that_cannot_be_begun_is_tried_for_a_day_and_has_failed_then(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rule()
    shop.event()
    dispatch()
    task = shop.only_task()

    def start() -> None:
        buying.start_due(limit=10)

    monkeypatch.setattr(bounds, "attempts_left", fails)
    for number, seconds in enumerate(DELAYS, start=1):
        assert again(task, start) == seconds, number
    assert standing() == {
        "tasks of triage": "1 without a next attempt, by a fault of the platform's own; the log has it"
    }
    again(task, start)
    task.refresh_from_db()
    assert (task.status, task.outcome, task.reason) == ("COMPLETED", "FAILED", FAULT)
    assert AutomationEvent.objects.get().outcome == "FAILED"
    assert (standing(), shop.attempts()) == ({}, [])
    (said,) = shop.bodies()
    assert said.endswith(f"FAILED (no run, 0.000000 USD)\n{FAULT}")


def since(hours: float) -> None:
    """As if it had failed for so long."""
    AutomationAttempt.objects.update(unavailable_since=Now() - faults.TOLD_AFTER * 12 * hours, next_try_at=gear.AT)


def test_lif_02_an_attempt_whose_submit_fails_is_said_and_ends_the_task_after_a_day(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rule()
    shop.event()
    submit = submitting.submit_run_of_attempt
    monkeypatch.setattr(submitting, "submit_run_of_attempt", fails)
    shop.buy()
    assert (AutomationAttempt.objects.get().reason, standing()) == ("error KeyError", {})
    since(23.9)
    shop.buy()
    assert shop.attempts() == [(1, "OPEN", None)]
    assert standing() == {
        "runs of triage": "1 not bought, or not noted, by a fault of the platform's own; the log has it"
    }
    since(24)
    monkeypatch.setattr(submitting, "submit_run_of_attempt", submit)
    shop.buy()
    assert (shop.attempts(), Run.objects.count(), standing()) == ([(1, "REFUSED", 0)], 0, {})
    assert shop.only_task().reason == "error KeyError (for 24 hours)"


def test_lif_02_an_attempt_that_failed_for_a_day_behind_its_purchase_has_its_run(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rule()
    shop.event()
    with monkeypatch.context() as broken:
        broken.setattr(buying, "_accepted", fails)
        shop.buy()
    assert (Run.objects.count(), shop.attempts()) == (1, [(1, "OPEN", None)])
    since(30)
    shop.turn()
    assert (Run.objects.count(), shop.attempts()) == (1, [(1, "SUCCEEDED", 50_000)])
    assert AutomationAttempt.objects.get().unavailable_since is None


def test_lif_02_a_runs_end_that_cannot_be_noted_is_said_and_tried_on(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is paid, and its answer is to be had: there is no day after which it would be given up."""
    shop.rule()
    shop.event()
    shop.buy()
    shop.work()
    with monkeypatch.context() as broken:
        broken.setattr(RunStorage, "read", fails)
        ending.end_due(limit=10)
        assert standing() == {}
        since(48)
        ending.end_due(limit=10)
    assert (shop.attempts(), list(standing())) == ([(1, "RUNNING", None)], ["runs of triage"])
    since(48)
    ending.end_due(limit=10)
    assert (shop.attempts(), standing()) == ([(1, "SUCCEEDED", 50_000)], {})
