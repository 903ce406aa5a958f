"""Automations killed or cut at each request: one event, one task, one run an attempt, one charge, one message.

The real code in a process of its own, against the real services. Two stretches: from the event to its run accepted, and
from the run's end to its message. Afterwards the next process comes: the poller finds the event again, leases have run
out, and turns go on until nothing is left to do. `make test` takes some of the requests, each with one fault in turn.
"""

from collections.abc import Callable
from typing import Final

import pytest
from django.db.models import F

from dpp_project.stores import redis
from ops.automations.models import (
    AutomationAttempt,
    AutomationEvent,
    AutomationMessage,
    AutomationResult,
    AutomationTask,
    SeenEvent,
)
from ops.automations.tasks import buying, dispatching, ending
from runs.box.box import Box
from runs.models import Run
from tenants.models import RATE_PER_MINUTE_MAX, Tenant
from tests.gear.builders import automations as gear
from tests.gear.builders import recovery
from tests.gear.builders.automation_shop import AutomationShop, an_automation_shop
from tests.gear.builders.recovery import tenant
from tests.gear.builders.work import session_box, worker_here
from tests.gear.faults.cutpoints import Ended, Forge, forge
from tests.gear.faults.scenes import quick_surroundings
from tests.gear.faults.wire import Fault
from tests.proving import proofs

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.contract("LIF-02", "LIF-05"),
    pytest.mark.usefixtures("quick_surroundings", "worker_here"),
]
__all__ = ["forge", "quick_surroundings", "session_box", "tenant", "worker_here"]

SPREAD: Final = 9
TURNS: Final = 4
CHARGE_MICROS: Final = 1_000
Stretch = Callable[[AutomationShop], None]


def buys(shop: AutomationShop) -> None:
    """A poller, the dispatcher and the buyer, as one process."""
    gear.emit(shop.source, cursor="2", thread="issue-7")
    dispatching.dispatch_due(limit=10)
    buying.buy_due(limit=10)


def ends(shop: AutomationShop) -> None:
    del shop
    ending.end_due(limit=10)


def before(stretch: Stretch, shop: AutomationShop) -> None:
    """All that comes before a stretch, undisturbed."""
    if stretch is ends:
        buys(shop)
        shop.work()


STRETCHES: Final = (buys, ends)
every_stretch = pytest.mark.parametrize("stretch", STRETCHES, ids=lambda stretch: stretch.__name__)


@pytest.fixture
def shop(tenant: Tenant, worker_here: Box) -> AutomationShop:
    """On a quick machine the slow proof submits more in a minute than a tenant may by default."""
    Tenant.objects.filter(pk=tenant.pk).update(submit_rate_per_minute=RATE_PER_MINUTE_MAX)
    made = an_automation_shop(tenant)
    made.rule(
        inputs={"cost_usd": "0.0010"}, max_cost_usd="0.0100", usd_per_day="1000.0000", runs_per_hour=10_000
    )  # room for every case of the slow proof
    return made


def anew(shop: AutomationShop) -> None:
    for table in (AutomationMessage, AutomationResult, AutomationAttempt, AutomationTask, AutomationEvent, SeenEvent):
        table.objects.all().delete()
    shop.source.refresh_from_db()


def time_passes() -> None:
    """Leases and pauses are over, and no lock of a submit is left."""
    AutomationAttempt.objects.update(next_try_at=gear.AT, lease_until=None)
    for table in (AutomationEvent, AutomationTask):
        table.objects.exclude(status="COMPLETED").update(next_try_at=gear.AT, version=F("version") + 1)
    for key in redis.redis_client().keys("idem_lock:*"):
        redis.redis_client().delete(key)


def goes_on(shop: AutomationShop) -> None:
    for _ in range(TURNS):
        time_passes()
        buys(shop)
        shop.work()
        ends(shop)


def holds_true(shop: AutomationShop, *, runs_before: int, charged_before: int) -> None:
    event, task = AutomationEvent.objects.get(), AutomationTask.objects.get()
    assert (event.status, event.outcome, SeenEvent.objects.get().outcome) == ("COMPLETED", "SUCCEEDED", "SUCCEEDED")
    assert (task.status, task.outcome, task.attempts) == ("COMPLETED", "SUCCEEDED", 1)
    (attempt,) = AutomationAttempt.objects.all()
    runs = Run.objects.filter(idempotency_key__startswith=f"{task.pk}:")
    assert [(run.run_id, run.idempotency_key) for run in runs] == [(attempt.run_id, f"{task.pk}:1")]
    assert Run.objects.filter(tenant=shop.tenant).count() == runs_before + 1
    assert shop.charged_micros() - charged_before == task.charged_usd_micros == CHARGE_MICROS
    assert recovery.held_micros(shop.tenant) == {}
    assert AutomationResult.objects.get().run_id == attempt.run_id
    assert AutomationMessage.objects.get().key == f"result:{task.pk}"
    shop.source.refresh_from_db()
    assert shop.source.cursor == "2"


def struck(stretch: Stretch, shop: AutomationShop, forge: Forge, *, at: int | None, fault: Fault | None) -> Ended:
    anew(shop)
    before(stretch, shop)
    bought = 1 if stretch is ends else 0
    runs, charged = (
        Run.objects.filter(tenant=shop.tenant).count() - bought,
        shop.charged_micros() - CHARGE_MICROS * bought,
    )
    ended = forge.run(lambda: stretch(shop), at=at, fault=fault)
    assert ended.killed == (ended.struck and fault is not None and fault.kills), ended
    goes_on(shop)
    holds_true(shop, runs_before=runs, charged_before=charged)
    return ended


@every_stretch
def test_lif_02_any_request_may_be_the_last(stretch: Stretch, shop: AutomationShop, forge: Forge) -> None:
    whole = struck(stretch, shop, forge, at=None, fault=None)
    assert whole.failed is None
    assert "postgres" in whole.requests
    count, met = len(whole.requests), 0
    for number, at in enumerate(range(STRETCHES.index(stretch), count, SPREAD)):
        fault = list(Fault)[number % len(Fault)]
        met += struck(stretch, shop, forge, at=at, fault=fault).struck
    assert met >= count // SPREAD - 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@every_stretch
def test_lif_02_every_request_killed_and_cut(stretch: Stretch, shop: AutomationShop, forge: Forge) -> None:
    """Each request meets a kill and a cut, before and after it by turns."""
    struck(stretch, shop, forge, at=None, fault=None)
    count = len(struck(stretch, shop, forge, at=None, fault=None).requests)
    met = 0
    for at in range(count):
        for number in range(2):
            fault = list(Fault)[number % 2 + 2 * ((at // 2 + number) % 2)]
            met += struck(stretch, shop, forge, at=at, fault=fault).struck
    assert met >= 2 * count - 4
    proofs.report(cases=met)
