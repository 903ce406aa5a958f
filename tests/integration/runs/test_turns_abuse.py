"""What one tenant's priorities, keys and cancels may not do to the line, nor a death or a rival (DPP-87, DPP-98)."""

import threading
from typing import Any

import pytest

from dpp_project.aws import queue_depth
from dpp_project.settings import ENV
from dpp_project.stores import redis
from reaper import requeuer
from runs import transitions, turns
from runs.cancel import cancellation
from runs.claims import Lease
from runs.models import ConcurrencyLimit, Run, RunTurn
from runs.submit import next_of_key, wake_worker
from runs.worker import leases, starting
from tenants.models import Tenant
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.queues import Queues
from tests.gear.builders.shop import messages
from tests.gear.builders.turns import KEY, in_line, stands, start, starts
from tests.gear.faults.rivals import OnAnotherConnection
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True)]

SMALL = 100_000


def flood(tenant: Tenant, count: int, **values: Any) -> list[Run]:
    return [in_line(tenant, reserved_micros=SMALL, **values) for _ in range(count)]


def noted() -> int:
    return int(redis.redis_client().get(turns.NOW) or 0)


def turn_of(run: Run) -> int:
    return RunTurn.objects.get(run_id=run.run_id).fair_pass


@pytest.mark.contract("DPP-87", "DPP-98")
def test_dpp_98_a_priority_behind_a_flood_puts_no_newcomer_behind_the_flood(tenant: Tenant) -> None:
    """What started is noted by the number of its turn: by its own, all who come later would be behind the flood."""
    late = recovery.funded()
    first, *_ = flood(tenant, 40)
    number = turn_of(first)
    urgent = in_line(tenant, priority=9, reserved_micros=SMALL)
    started = start()
    assert started is not None
    assert (started.run.run_id, noted()) == (urgent.run_id, number)
    in_line(late)
    assert starts(2)[late.tenant_id] == 1


@pytest.mark.contract("DPP-87")
def test_dpp_87_a_run_that_its_own_message_starts_moves_the_line_for_nobody(tenant: Tenant) -> None:
    """As an express message does that the requeuer sent for a run far back in the line."""
    runs = flood(tenant, 40)
    token = "a-token"
    started = starting.start_run(runs[-1].run_id, lease_token=token, in_turn=False)
    assert started is not None
    leases.take_run_lease(Lease(started.run.run_id, token), fair_pass=started.fair_pass)
    assert (started.run.run_id, started.fair_pass, noted()) == (runs[-1].run_id, None, 0)


@pytest.mark.contract("DPP-98")
def test_dpp_98_a_parked_runs_message_starts_it_in_no_turn_but_its_own(tenant: Tenant) -> None:
    """Else a tenant had its runs started by their messages, as many as it had sent, and not by turns."""
    other = recovery.funded()
    first, second, third = (in_line(tenant, concurrency_key=KEY) for _ in range(3))
    start()
    assert start(second.run_id) is None
    theirs = in_line(other)
    assert cancellation.cancel_run(tenant_id=tenant.tenant_id, run_id=first.run_id, actor="owner") is not None
    assert [stands(run) for run in (second, third)] == ["WAITING", "PARKED"]
    found = [start(third.run_id), start(third.run_id)]
    assert [one and one.run.run_id for one in found] == [second.run_id, theirs.run_id]
    assert stands(third) == "PARKED"


@pytest.mark.contract("DPP-98")
def test_dpp_98_a_parked_runs_message_starts_it_where_nothing_else_waits(tenant: Tenant) -> None:
    first, second = (in_line(tenant, concurrency_key=KEY) for _ in range(2))
    start()
    assert start(second.run_id) is None
    gear.aged(gear.row(first.run_id), lease_expires_at=1)
    RunTurn.objects.filter(run_id=first.run_id).delete()  # as its end leaves it, before anything is woken
    started = start(second.run_id)
    assert started is not None
    assert started.run.run_id == second.run_id


@pytest.mark.contract("DPP-87", "DPP-98")
def test_dpp_98_the_next_of_a_key_waits_for_a_turn_and_not_for_all_that_its_tenant_ever_drew(tenant: Tenant) -> None:
    """A number of what is kept back has no start: behind it, a key's second run waited for the whole of a flood."""
    other = recovery.funded()
    mine, _ = flood(tenant, 40, concurrency_key=KEY), flood(other, 40)
    first = start(mine[0].run_id)
    assert first is not None
    assert starts(2) == {other.tenant_id: 2}
    assert RunTurn.objects.filter(stands="PARKED").count() == 39
    assert cancellation.cancel_run(tenant_id=tenant.tenant_id, run_id=mine[0].run_id, actor="owner") is not None
    assert starts(3)[tenant.tenant_id] == 1


@pytest.mark.contract("DPP-87", "DPP-98")
def test_dpp_98_what_a_tenant_submits_beside_its_parked_runs_waits_for_a_turn(tenant: Tenant) -> None:
    other = recovery.funded()
    flood(tenant, 40, concurrency_key=KEY)
    flood(other, 40)
    assert starts(3)[tenant.tenant_id] == 1
    plain = in_line(tenant)
    assert starts(3) == {tenant.tenant_id: 1, other.tenant_id: 2}
    assert stands(plain) is None


@pytest.mark.contract("DPP-87", "DPP-98")
def test_dpp_98_who_has_more_in_line_than_are_counted_draws_behind_all_of_it(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each waking would set its numbers back, and the tenant had several turns where others have one."""
    monkeypatch.setattr(turns, "COUNTED_MOST", 4)
    waiting = flood(tenant, 8)
    last = RunTurn.objects.filter(run_id__in=[run.run_id for run in waiting]).latest("fair_pass").fair_pass
    assert next_of_key._drawn(tenant.tenant_id, 1)[0] > last
    monkeypatch.setattr(turns, "COUNTED_MOST", 100)
    start(waiting[0].run_id)
    assert next_of_key._drawn(tenant.tenant_id, 1)[0] <= last + 2 * turns.STRIDE, "what is counted, it draws behind"


@pytest.mark.contract("DPP-98")
def test_dpp_98_two_workers_at_once_start_one_run_in_one_turn(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comes when the first has just started a run in the turn of another, and has not come further."""
    monkeypatch.setattr(starting, "_CHOOSING", threading.Semaphore(99))
    other = recovery.funded()
    flood(tenant, 40, priority=0)
    flood(tenant, 2, priority=9)
    flood(other, 3)
    rivals: list[OnAnotherConnection[Any]] = []
    real, met = transitions.start, threading.Event()

    def met_by_another(**edge: Any) -> Any:
        answer = real(**edge)
        if not met.is_set():
            met.set()
            rivals.append(OnAnotherConnection(start))
            wait_until(lambda: rivals[0].is_done() or rivals[0].waits_for_a_lock(), what="the second worker")
        return answer

    monkeypatch.setattr(transitions, "start", met_by_another)
    first = start()
    second = rivals[0].answer()
    assert first is not None
    assert second is not None
    assert [found.run.tenant_id for found in (first, second)] == [tenant.tenant_id, other.tenant_id]


@pytest.mark.contract("DPP-27", "DPP-98")
def test_dpp_98_a_cancel_wakes_the_next_of_the_key_at_once(tenant: Tenant) -> None:
    """Of a run at work, whether its worker lives or not; and of one that was woken, and waits in the line."""
    runs = [in_line(tenant, concurrency_key=KEY) for _ in range(3)]
    start()
    assert start(runs[1].run_id) is None
    for canceled, woken in ((runs[0], runs[1]), (runs[1], runs[2])):
        assert cancellation.cancel_run(tenant_id=tenant.tenant_id, run_id=canceled.run_id, actor="owner") is not None
        assert [one["run_id"] for one in messages()] == [str(woken.run_id)]
        assert stands(woken) == "WAITING"


@pytest.mark.contract("DPP-98")
def test_dpp_98_a_run_that_is_parked_while_the_room_is_made_is_woken_by_it(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker has counted no room, and parks it behind the look of the end that makes some."""
    first, second = (in_line(tenant, concurrency_key=KEY) for _ in range(2))
    start()
    enders: list[OnAnotherConnection[Any]] = []
    real = turns.park_key

    def ended_meanwhile(*args: Any, **named: Any) -> int:
        end = OnAnotherConnection(
            lambda: cancellation.cancel_run(tenant_id=tenant.tenant_id, run_id=first.run_id, actor="owner")
        )
        enders.append(end)
        wait_until(lambda: end.is_done() or end.waits_for_a_lock(), what="the end of the run at work")
        return real(*args, **named)

    monkeypatch.setattr(turns, "park_key", ended_meanwhile)
    assert start(second.run_id) is None
    assert isinstance(enders[0].answer(), cancellation.Canceled)
    assert (stands(second), [one["run_id"] for one in messages()]) == ("WAITING", [str(second.run_id)])


@pytest.mark.contract("DPP-43", "DPP-87")
def test_dpp_43_an_express_runs_lost_message_waits_for_nobody_elses_backlog(tenant: Tenant, express: Queues) -> None:
    """The twin is a run in the line: as many messages as rows are due, and it is late, not lost."""
    quiet = recovery.funded()
    runs = flood(tenant, 6)
    wake_worker.send_wakeups([wake_worker.Wakeup.of(run) for run in runs])
    for run in runs[:2]:
        gear.aged(run, next_send_at=1)
    lost = recovery.unsent(quiet)
    assert recovery.run_loop(requeuer.requeue_runs).changed == 1
    assert (gear.row(lost.run_id).send_count, express.counts(express.express_url)[0]) == (1, 1)
    assert queue_depth.queue_depth_of(ENV.DPP_QUEUE_URL)[0] == len(runs)


@pytest.mark.contract("DPP-43", "DPP-98")
def test_dpp_98_the_requeuer_wakes_all_that_a_raised_limit_has_room_for(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(next_of_key, "MOST_AT_ONCE", 2)
    flood(tenant, 6, concurrency_key=KEY)
    start()
    assert start() is None
    ConcurrencyLimit.objects.create(tenant_id=tenant.tenant_id, key=KEY, most_at_work=1_000)
    assert recovery.run_loop(requeuer.requeue_runs).detail["woken"] == 5
