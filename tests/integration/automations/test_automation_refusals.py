"""What an attempt that is refused leaves: its task ended with it, and no run that nobody has."""

import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now

from budget import services as money
from budget.caps import setting
from budget.outcomes import Held
from dpp_project import clock
from ops.automations import transitions
from ops.automations.models import AutomationAttempt, AutomationTask
from ops.automations.states import TaskOutcome
from ops.automations.tasks import buying, dispatching, ending, submitting
from reaper import hold_auditor, retention
from runs import transitions as run_transitions
from runs.box.box import Box
from runs.cancel import cancellation
from runs.claims import counted_of
from runs.finish import data_deletion
from runs.models import Run
from runs.packs import registry
from runs.states import Status
from tenants import services
from tenants.models import Tenant
from tests.gear.builders import automations as gear
from tests.gear.builders import recovery
from tests.gear.builders import runs as runs_gear
from tests.gear.builders.automation_shop import AutomationShop, an_automation_shop, due_again
from tests.gear.builders.recovery import tenant
from tests.gear.builders.work import session_box, worker_here

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-02")]
__all__ = ["session_box", "tenant", "worker_here"]


@pytest.fixture
def shop(tenant: Tenant, worker_here: Box) -> AutomationShop:
    return an_automation_shop(tenant)


def test_lif_02_a_run_that_the_tenant_made_under_an_attempts_name_is_not_the_attempts(shop: AutomationShop) -> None:
    shop.rule()
    shop.event()
    dispatching.dispatch_due(limit=10)
    buying.start_due(limit=10)
    recovery.queued(shop.tenant, idempotency_key=f"{shop.only_task().pk}:1")
    shop.turn()
    assert (shop.attempts(), shop.only_task().outcome) == ([(1, "REFUSED", 0)], "FAILED")
    assert shop.only_task().reason.startswith("IDEMPOTENCY_CONFLICT")


def test_lif_02_a_submit_that_is_slow_is_waited_for_by_whoever_is_refused(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row stands without its money: were the attempt refused now, the slow one would buy a run that nobody has."""
    rule = shop.rule()
    shop.event()

    def freezes(**_: object) -> None:
        raise recovery.Died

    monkeypatch.setattr(money, "hold", freezes)
    with pytest.raises(recovery.Died):
        shop.buy()
    monkeypatch.undo()
    run = Run.objects.get()
    services.revoke_key(key_id=rule.key_id, actor="ada")
    AutomationAttempt.objects.update(lease_until=gear.AT)
    buying.buy_due(limit=10)
    assert (shop.attempts(), shop.only_task().status) == ([(1, "OPEN", None)], "IN_PROGRESS")
    held = money.hold(
        tenant_id=run.tenant_id,
        run_id=str(run.pk),
        reserved_micros=run.reservation_max_cost_usd_micros,
        created_at_ms=1,
        counted=counted_of(run),
    )
    assert isinstance(held, Held)
    run_transitions.reserve(run_id=run.pk, version=run.version, actor="submit")
    due_again()
    shop.turn()
    assert shop.attempts() == [(1, "SUCCEEDED", 50_000)]


def test_lif_02_what_a_frozen_buyer_bought_after_the_refusal_is_given_back(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It froze before its submit, and its lease ran out; another took the attempt over and was refused for good."""
    shop.rule()
    shop.event()
    submit = submitting.submit_run_of_attempt

    def freezes(attempt: AutomationAttempt) -> Any:
        ending.finish_task(attempt.task_id, outcome=TaskOutcome.FAILED, reason="AUTH_INVALID", refused=attempt)
        return submit(attempt)

    monkeypatch.setattr(submitting, "submit_run_of_attempt", freezes)
    shop.buy()
    shop.work()
    run = Run.objects.get()
    assert (run.last_error_reason_code, run.money_state, run.last_actor) == (
        "CANCELED_BY_OWNER",
        "REFUNDED",
        "automations",
    )
    assert (shop.attempts(), shop.only_task().outcome, shop.charged_micros()) == ([(1, "REFUSED", 0)], "FAILED", 0)


def test_lif_02_a_refused_attempt_and_its_task_end_together(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a death between the two the next attempt would ask again for what was refused for good."""
    shop.rule()
    shop.event(payload={"cost": "none"})

    def dies(*_: object, **__: object) -> None:
        raise recovery.Died

    monkeypatch.setattr(transitions, "complete_task", dies)
    with pytest.raises(recovery.Died):
        shop.buy()
    monkeypatch.undo()
    assert shop.attempts() == [(1, "OPEN", None)]
    AutomationAttempt.objects.update(lease_until=gear.AT)
    for _ in range(2):
        shop.turn()
    assert (shop.attempts(), shop.only_task().outcome) == ([(1, "REFUSED", 0)], "FAILED")


def test_lif_02_a_run_that_a_person_cancels_is_not_bought_again(shop: AutomationShop) -> None:
    shop.rule(retries=3)
    shop.event()
    shop.buy()
    run = Run.objects.get()
    canceled = cancellation.cancel_run(tenant_id=run.tenant_id, run_id=run.pk, actor="owner")
    assert isinstance(canceled, cancellation.Canceled)
    for _ in range(2):
        shop.turn()
    task = shop.only_task()
    assert (task.outcome, task.reason, task.charged_usd_micros) == ("FAILED", "CANCELED_BY_OWNER", 0)
    assert Run.objects.count() == 1


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    lacks = dataclasses.replace(registry.pack_named("probe"), missing=lambda: ["words for the probe"])
    without = dict(registry.packs_for_sale()) | {"probe": lacks}
    with monkeypatch.context() as patch:
        patch.setattr(registry, "packs_for_sale", lambda: without)
        yield


def refused_for(shop: AutomationShop, seconds: float) -> list[tuple[int, str, int | None]]:
    """As if it had been refused for so long."""
    AutomationAttempt.objects.update(unavailable_since=Now() - timedelta(seconds=seconds))
    due_again()
    shop.buy()
    return shop.attempts()


@pytest.mark.usefixtures("no_engine")
def test_lif_02_an_engine_that_stays_away_is_said_and_ends_the_task_after_a_day(shop: AutomationShop) -> None:
    shop.rule()
    shop.event()
    shop.buy()
    first = AutomationAttempt.objects.get()
    assert (first.status, first.reason[:18], first.unclear) == ("OPEN", "ENGINE_UNAVAILABLE", False)
    assert refused_for(shop, 4 * 60) == [(1, "OPEN", None)]
    assert shop.bodies() == []
    assert refused_for(shop, 6 * 60) == [(1, "OPEN", None)]
    (said,) = shop.bodies()
    assert said.startswith(f"triage: {shop.only_task().number} waits: ENGINE_UNAVAILABLE")
    since = AutomationAttempt.objects.get().unavailable_since
    due_again()
    shop.buy()
    assert AutomationAttempt.objects.get().unavailable_since == since
    assert shop.bodies() == [said], "once an hour"
    assert refused_for(shop, 24 * 3_600 - 60) == [(1, "OPEN", None)]
    assert refused_for(shop, 24 * 3_600) == [(1, "REFUSED", 0)]
    task = shop.only_task()
    assert (task.outcome, task.reason[:18], task.reason[-14:]) == ("FAILED", "ENGINE_UNAVAILABLE", "(for 24 hours)")
    assert task.reason in shop.bodies()[-1]
    assert Run.objects.count() == 0


def test_lif_02_what_waits_for_money_meanwhile_has_its_day_anew(
    shop: AutomationShop, request: pytest.FixtureRequest
) -> None:
    """The day counts from the first of the refusals that pass by themselves, not from the attempt's begin."""
    rule = shop.rule()
    shop.event()
    dispatching.dispatch_due(limit=10)
    setting.set_caps(
        tenant_id=rule.tenant_id, lineage_id=rule.lineage_id, changes={"day": 0}, actor="ada", reason="a test"
    )
    buying.buy_due(limit=10)
    assert refused_for(shop, 25 * 3_600) == [(1, "OPEN", None)]
    assert AutomationAttempt.objects.get().reason.startswith("SPEND_CAP_REACHED")
    assert AutomationAttempt.objects.get().unavailable_since is None
    request.getfixturevalue("no_engine")
    due_again()
    shop.buy()
    assert shop.attempts() == [(1, "OPEN", None)]


def test_lif_02_an_attempt_whose_inputs_are_gone_is_refused(shop: AutomationShop) -> None:
    shop.rule()
    shop.event()
    dispatching.dispatch_due(limit=10)
    buying.start_due(limit=10)
    AutomationTask.objects.update(inputs=None, version=F("version") + 1)
    shop.buy()
    assert (shop.attempts(), shop.only_task().outcome) == ([(1, "REFUSED", 0)], "FAILED")


@pytest.mark.parametrize("fail", [False, True])
def test_lif_02_a_run_whose_key_went_with_its_data_is_not_bought_twice(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch, *, fail: bool
) -> None:
    """Died behind its submit; by the time another process comes the run is a tombstone, and its key is free."""
    shop.rule(retries=0)
    shop.event(payload={"fail": fail})

    def dies(**_: object) -> None:
        raise recovery.Died

    monkeypatch.setattr(transitions, "accept_attempt", dies)
    with pytest.raises(recovery.Died):
        shop.buy()
    monkeypatch.undo()
    shop.work()
    run = Run.objects.get()
    assert isinstance(
        data_deletion.delete_run_data(tenant_id=run.tenant_id, run_id=run.pk, actor="owner"), data_deletion.DataDeleted
    )
    retention.expire_runs(now=clock.now(), limit=10)
    run.refresh_from_db()
    assert (run.status, run.idempotency_key) == ("EXPIRED", None)
    charged = shop.charged_micros()
    AutomationAttempt.objects.update(lease_until=gear.AT)
    for _ in range(2):
        shop.turn()
    assert Run.objects.count() == 1
    assert shop.attempts() == [(1, "FAILED" if fail else "SUCCEEDED", charged)]
    assert (shop.only_task().outcome, shop.charged_micros()) == ("FAILED" if fail else "SUCCEEDED", charged)


def test_lif_02_a_run_of_a_submit_that_failed_is_bought_again(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gave its key up because its money was never held: an older one of its kind is none of the attempt's."""
    shop.rule()
    shop.event()

    def freezes(**_: object) -> None:
        raise recovery.Died

    monkeypatch.setattr(money, "hold", freezes)
    with pytest.raises(recovery.Died):
        shop.buy()
    monkeypatch.undo()
    run = runs_gear.aged(Run.objects.get(), updated_at=3_700)
    hold_auditor.audit_holds(now=clock.now(), limit=10)
    run.refresh_from_db()
    assert (run.idempotency_key, run.last_error_reason_code) == (None, "SUBMIT_ABANDONED")
    runs_gear.aged(run, retention_until=1)
    retention.expire_runs(now=clock.now(), limit=10)
    run.refresh_from_db()
    assert run.status == Status.EXPIRED, "a tombstone, as that of a run that was bought"
    AutomationAttempt.objects.update(lease_until=gear.AT)
    shop.turn()
    assert shop.attempts() == [(1, "SUCCEEDED", 50_000)]


def test_lif_02_what_failed_within_its_submit_is_looked_for(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of ours behind the submit leaves no lease that runs out, and the run stands all the same."""
    shop.rule()
    shop.event()

    def fails(**_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(transitions, "accept_attempt", fails)
    shop.buy()
    monkeypatch.undo()
    assert AutomationAttempt.objects.get().unclear is True
    assert Run.objects.count() == 1
