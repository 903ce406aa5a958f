"""Whose run starts next: tenants share by weight, and each orders its own (DPP-87, DPP-98)."""

import re
import threading
import uuid
from collections import Counter
from typing import Any, cast

import pytest
from django.db import connection, transaction

from dpp_project import clock
from dpp_project.audit.models import AuditEntry
from dpp_project.reasons import ReasonCode
from dpp_project.stores import redis
from reaper import lease_reaper, requeuer
from runs import transitions, turns
from runs.cancel import cancellation
from runs.intents import Intent
from runs.models import ConcurrencyLimit, Run, RunTurn
from runs.operators import explain_run
from runs.packs import registry
from runs.reads import for_worker
from runs.submit import concurrency_limits, next_of_key, wake_worker
from runs.worker import execution, starting
from runs.worker.execution import End
from tenants.models import Tenant
from tests.gear.builders import bulk, recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.recovery import Died
from tests.gear.builders.shop import Shop, a_body, messages
from tests.gear.builders.tenants import bearer
from tests.gear.builders.turns import KEY, in_line, stands, start, start_counting_at_once, starts, with_weight

pytestmark = [pytest.mark.django_db(transaction=True)]


# Between tenants.


@pytest.mark.contract("DPP-87")
def test_dpp_87_floods_share_by_weight(tenant: Tenant) -> None:
    heavy, light = with_weight(recovery.funded(), 3), recovery.funded()
    for _ in range(10):
        in_line(light)
    for _ in range(20):
        in_line(heavy)
    found = starts(16)
    assert abs(found[heavy.tenant_id] - 12) <= 1
    assert found.total() == 16


@pytest.mark.contract("DPP-87")
def test_dpp_87_who_comes_to_a_flood_waits_for_a_turn_and_not_for_the_flood(tenant: Tenant) -> None:
    late = recovery.funded()
    flood = [turn_of(in_line(tenant)) for _ in range(12)]
    assert starts(4) == {tenant.tenant_id: 4}
    assert flood[3] < turn_of(in_line(late)) <= flood[5]
    assert starts(2)[late.tenant_id] == 1


@pytest.mark.contract("DPP-87")
def test_dpp_87_who_comes_again_is_not_before_what_has_started_meanwhile(tenant: Tenant) -> None:
    again = recovery.funded()
    in_line(again)
    flood = [turn_of(in_line(tenant)) for _ in range(12)]
    assert starts(10).total() == 10
    started = int(cast("str", redis.redis_client().get(turns.NOW)))
    assert started >= flood[8]
    assert turn_of(in_line(again)) > started


@pytest.mark.contract("DPP-87")
def test_dpp_87_numbers_that_redis_lost_overtake_nothing_and_strand_nothing(tenant: Tenant) -> None:
    """As the loss is met: what was in line stays so, and the flood's next runs come behind those it has."""
    other = recovery.funded()
    before = [in_line(tenant) for _ in range(6)]
    starts(2)
    redis.redis_client().delete(turns.NOW, turns.GUESS, turns.last_turn(tenant.tenant_id))
    after = [in_line(tenant) for _ in range(3)]
    assert min(turn_of(run) for run in after) > max(turn_of(run) for run in before[2:])
    starts(1)  # from here on Redis knows again where the line is
    in_line(other)
    assert starts(2)[other.tenant_id] == 1
    assert starts(20).total() == 6 + 3 + 1 - 5
    assert not RunTurn.objects.exists()


def turn_of(run: Run) -> int:
    return RunTurn.objects.get(run_id=run.run_id).fair_pass


@pytest.mark.contract("DPP-37", "DPP-87")
def test_dpp_87_a_message_stands_for_a_start_and_not_for_its_run(tenant: Tenant) -> None:
    first, second = in_line(tenant), in_line(tenant)
    started = start(second.run_id)
    assert started is not None
    assert (started.run.run_id, stands(first), stands(second)) == (first.run_id, None, "WAITING")
    assert [found and found.run.run_id for found in (start(second.run_id), start(first.run_id))] == [
        second.run_id,
        None,
    ]


@pytest.mark.contract("DPP-43", "DPP-87")
def test_dpp_87_a_run_without_a_turn_is_started_by_its_own_message(tenant: Tenant) -> None:
    in_line(tenant)
    bare = recovery.queued(tenant, pack_type="probe")
    started = start(bare.run_id)
    assert started is not None
    assert (started.run.run_id, started.fair_pass) == (bare.run_id, None)


@pytest.mark.contract("DPP-45")
def test_dpp_45_a_letters_run_leaves_the_line_for_its_own_requeue(tenant: Tenant) -> None:
    early, dead = in_line(tenant), in_line(tenant)
    gear.won(transitions.mark_dead_lettered(run_id=dead.run_id))
    assert stands(dead) is None
    started = start(dead.run_id)
    assert started is not None
    assert (started.run.run_id, stands(early)) == (dead.run_id, "WAITING")


@pytest.mark.contract("DPP-45", "DPP-98")
def test_dpp_98_a_letters_run_is_at_work_under_its_key_until_it_has_ended(tenant: Tenant) -> None:
    """Else its key had room while it was being finished, and its end woke nobody but itself."""
    run, waiting = in_line(tenant, concurrency_key=KEY), in_line(tenant, concurrency_key=KEY)
    gear.won(transitions.mark_dead_lettered(run_id=run.run_id))
    started = start(run.run_id)
    assert started is not None
    assert (started.run.run_id, stands(run)) == (run.run_id, "AT_WORK")
    fee = Intent.minimum_fee(
        minimum_fee_micros=run.minimum_fee_usd_micros,
        reserved_micros=run.reservation_max_cost_usd_micros,
        reason=ReasonCode.CANCELED_BY_OWNER,
    )
    gear.won(transitions.claim_canceled(run=gear.row(run.run_id), intent=fee, actor="owner"))
    assert (stands(run), start(waiting.run_id)) == ("AT_WORK", None)


@pytest.mark.contract("DPP-87")
def test_dpp_87_a_pack_that_this_worker_lacks_keeps_nobody_waiting_and_its_message_is_left(tenant: Tenant) -> None:
    foreign = recovery.queued(tenant, pack_type="of-tomorrow", fair_pass=1)
    ours = in_line(tenant)
    started = start(foreign.run_id)
    assert started is not None
    assert started.run.run_id == ours.run_id
    with pytest.raises(registry.UnknownPack):
        start(foreign.run_id)


@pytest.mark.contract("DPP-30", "DPP-87")
def test_dpp_87_many_workers_at_once_start_each_run_once(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the lock of one process, as those of several."""
    monkeypatch.setattr(starting, "_CHOOSING", threading.Semaphore(99))
    runs = [in_line(tenant) for _ in range(5)]
    found = at_once(8)
    assert sorted(one for one in found if one) == sorted(str(run.run_id) for run in runs)
    assert {gear.row(run.run_id).version for run in runs} == {runs[0].version + 1}


def at_once(workers: int) -> list[str | None]:
    """What each of them started."""
    named = RunTurn.objects.values_list("run_id", flat=True).latest("fair_pass")

    def one() -> str | None:
        started = start(named)
        return None if started is None else str(started.run.run_id)

    return cast("list[str | None]", recovery.at_once(*[one] * workers))


# Within a tenant.


@pytest.mark.contract("DPP-98")
def test_dpp_98_a_priority_goes_first_among_its_tenants_runs_and_costs_the_others_nothing(tenant: Tenant) -> None:
    other = recovery.funded()
    idle = in_line(tenant, priority=0, reserved_micros=100_000)
    plain = [in_line(tenant, reserved_micros=100_000) for _ in range(40)]
    urgent = in_line(tenant, priority=9, reserved_micros=100_000)
    for _ in range(40):
        in_line(other, reserved_micros=100_000)
    found = [start() for _ in range(60)]
    mine = [one.run.run_id for one in found if one is not None and one.run.tenant_id == tenant.tenant_id]
    assert mine[:2] == [urgent.run_id, plain[0].run_id]
    assert idle.run_id not in mine
    assert abs(len(mine) - 30) <= 2


@pytest.mark.contract("DPP-98")
def test_dpp_98_a_flood_gains_nothing_by_priorities_or_by_many_keys(tenant: Tenant) -> None:
    plain, sly = recovery.funded(), recovery.funded()
    for _ in range(12):
        in_line(plain)
    for at in range(12):
        in_line(sly, priority=9, concurrency_key=f"key-{at}")
    assert starts(12) == Counter({plain.tenant_id: 6, sly.tenant_id: 6})


@pytest.mark.contract("DPP-98")
def test_dpp_98_one_of_a_key_is_at_work_and_its_end_wakes_the_next(tenant: Tenant, worker_here: object) -> None:
    del worker_here
    first, second, third = (in_line(tenant, concurrency_key=KEY, inputs={"sleep_ms": 1}) for _ in range(3))
    meanwhile = start(first.run_id)
    assert meanwhile is not None
    assert start(second.run_id) is None
    assert [stands(run) for run in (first, second, third)] == ["AT_WORK", "PARKED", "PARKED"]
    other = in_line(recovery.funded())
    assert recovery.run_loop(requeuer.requeue_runs).changed == 0
    assert [explain_run.explain(gear.row(run.run_id), now=clock.now()).waits_for for run in (second, other)] == [
        f"a place of its concurrency key {KEY}, of which 1 are at work.",
        "its turn in the queue of runs: 0 are before it; by priority another of its tenant's may go first.",
    ]
    ended_by_its_owner(first)
    (message,) = messages()
    assert message["run_id"] == str(second.run_id)
    ended_by_its_owner(other)
    assert execution.execute_run(second.run_id, message=None, in_turn=True) is End.COMMITTED
    assert [stands(run) for run in (first, second, third)] == [None, None, "WAITING"]
    assert [one["run_id"] for one in messages()] == [str(third.run_id)]


def ended_by_its_owner(run: Run) -> None:
    canceled = cancellation.cancel_run(tenant_id=run.tenant_id, run_id=run.run_id, actor="owner")
    assert isinstance(canceled, cancellation.Canceled)
    assert canceled.ended


def ended_and_woke_nobody(run: Run) -> None:
    """By the reaper, behind a dead worker."""
    gear.aged(gear.row(run.run_id), lease_expires_at=1)
    assert recovery.run_loop(lease_reaper.reap_leases).changed == 1


@pytest.mark.contract("DPP-98")
def test_dpp_98_no_more_of_a_key_start_than_it_may_however_many_workers_come_at_once(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "_CHOOSING", threading.Semaphore(99))
    ConcurrencyLimit.objects.create(tenant=tenant, key=KEY, most_at_work=2)
    for _ in range(6):
        in_line(tenant, concurrency_key=KEY)
    free = in_line(tenant)
    found = at_once(8)
    assert sum(1 for one in found if one) == 3
    assert str(free.run_id) in found
    assert Counter(RunTurn.objects.values_list("stands", flat=True)) == {"AT_WORK": 2, "PARKED": 4}


@pytest.mark.contract("DPP-98")
def test_dpp_98_who_counts_a_key_lets_nobody_count_it_before_his_run_has_started(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [in_line(tenant, concurrency_key=KEY) for _ in range(2)]
    start_counting_at_once(runs, monkeypatch, count="room_of")
    assert Counter(RunTurn.objects.values_list("stands", flat=True)) == {"AT_WORK": 1, "PARKED": 1}


@pytest.mark.contract("DPP-98")
def test_dpp_98_what_was_parked_goes_before_what_came_later(tenant: Tenant) -> None:
    first, parked = in_line(tenant, concurrency_key=KEY), in_line(tenant, concurrency_key=KEY)
    start()
    assert start(parked.run_id) is None
    ended_and_woke_nobody(first)
    later = in_line(tenant, concurrency_key=KEY)
    started = start(later.run_id)
    assert started is not None
    assert (started.run.run_id, stands(later)) == (parked.run_id, "PARKED")


@pytest.mark.contract("DPP-98", "DPP-40")
def test_dpp_98_a_worker_that_died_gives_the_place_back_with_its_run(tenant: Tenant) -> None:
    """The reaper ends the dead one's run, the requeuer wakes the next; each run's money moves once."""
    dead, parked = in_line(tenant, concurrency_key=KEY), in_line(tenant, concurrency_key=KEY)
    start()
    assert start(parked.run_id) is None
    ended_and_woke_nobody(dead)
    report = recovery.run_loop(requeuer.requeue_runs)
    assert report.detail["woken"] == 1
    started = start(parked.run_id)
    assert started is not None
    assert started.run.run_id == parked.run_id
    assert recovery.held_micros(tenant) == {str(parked.run_id): gear.RESERVED_MICROS}
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - gear.RESERVED_MICROS - gear.FEE_MICROS


@pytest.mark.contract("DPP-98", "DPP-43")
def test_dpp_98_who_dies_waking_the_next_leaves_it_to_the_requeuer(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, parked = in_line(tenant, concurrency_key=KEY), in_line(tenant, concurrency_key=KEY)
    start()
    assert start(parked.run_id) is None
    ended_and_woke_nobody(first)

    def die(_wakeups: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(wake_worker, "send_wakeups", die)
        with pytest.raises(Died):
            next_of_key.wake_next(tenant.tenant_id, KEY)
    assert (stands(parked), messages()) == ("WAITING", [])
    gear.aged(gear.row(parked.run_id), next_send_at=1)
    assert recovery.run_loop(requeuer.requeue_runs).changed == 1
    assert [one["run_id"] for one in messages()] == [str(parked.run_id)]
    started = start(parked.run_id)
    assert started is not None
    assert started.run.run_id == parked.run_id


@pytest.mark.contract("DPP-98")
def test_dpp_98_the_requeuer_asks_about_keys_with_room_alone(tenant: Tenant) -> None:
    """A tenant names as many keys as it likes, and lost messages of all tenants wait behind them."""
    first, parked = in_line(tenant, concurrency_key=KEY), in_line(tenant, concurrency_key=KEY)
    start()
    assert start(parked.run_id) is None
    assert (stands(first), stands(parked), turns.keys_to_wake()) == ("AT_WORK", "PARKED", [])
    ConcurrencyLimit.objects.create(tenant_id=tenant.tenant_id, key=KEY, most_at_work=2)
    assert turns.keys_to_wake() == [(tenant.tenant_id, KEY)]


@pytest.mark.contract("DPP-27", "DPP-98")
@pytest.mark.parametrize("is_parked", [False, True])
def test_dpp_98_a_run_that_is_canceled_in_line_leaves_it_and_its_money_is_back(
    tenant: Tenant, *, is_parked: bool
) -> None:
    at_work, run = in_line(tenant, concurrency_key=KEY), in_line(tenant, concurrency_key=KEY)
    if is_parked:
        start()
        assert start(run.run_id) is None
    ended_by_its_owner(run)
    assert stands(run) is None
    assert list(recovery.held_micros(tenant)) == [str(at_work.run_id)]


@pytest.mark.contract("DPP-98")
def test_dpp_98_the_options_of_a_submit_make_its_turn(shop: Shop) -> None:
    options = {"concurrency_key": KEY, "priority": 7}
    answer = shop.submit(a_body(options=options), key="the-same-purchase")
    assert answer.status_code == 202
    turn = RunTurn.objects.get(run_id=answer.json()["run_id"])
    assert (turn.tenant_id, turn.pack_type, turn.concurrency_key, turn.priority, turn.stands) == (
        *(shop.tenant.tenant_id, "probe", KEY),
        *(7, "WAITING"),
    )
    again = shop.submit(a_body(options=options | {"priority": 1}), key="the-same-purchase")
    assert (again.status_code, again.json()["run_id"]) == (202, answer.json()["run_id"])
    assert RunTurn.objects.get().priority == 7
    for wrong in ({"priority": 10}, {"priority": -1}, {"concurrency_key": "a b"}, {"concurrency_key": ""}):
        assert shop.submit(a_body(options=wrong)).status_code == 422


@pytest.mark.contract("DPP-98", "DPP-97")
def test_dpp_98_a_limit_that_is_raised_wakes_what_it_has_room_for(shop: Shop) -> None:
    runs = [in_line(shop.tenant, concurrency_key=KEY) for _ in range(4)]
    start()
    assert start(runs[3].run_id) is None
    put = limit_set(shop, 3)
    assert put.json() == {"key": KEY, "limit": 3, "at_work": 1, "waiting": 3}
    assert sorted(one["run_id"] for one in messages()) == sorted(str(run.run_id) for run in runs[1:3])
    assert limit_set(shop, 1).json()["limit"] == 1
    assert shop.get(f"/v1/concurrency/{KEY}").json() == {"key": KEY, "limit": 1, "at_work": 1, "waiting": 3}
    entries = AuditEntry.objects.filter(tenant_id=shop.tenant.tenant_id, act="concurrency limit set").order_by("pk")
    assert [(one.before, one.after) for one in entries] == [
        ({"limit": 1}, {"limit": 3}),
        ({"limit": 3}, {"limit": 1}),
    ]


def limit_set(shop: Shop, limit: int) -> Any:
    return shop.client.put(
        f"/v1/concurrency/{KEY}", {"limit": limit}, content_type="application/json", headers=bearer(shop.issued)
    )


@pytest.mark.contract("DPP-98")
def test_dpp_98_a_wrong_limit_or_one_too_many_changes_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [limit_set(shop, wrong).status_code for wrong in (0, 1_001)] == [422, 422]
    assert shop.get("/v1/concurrency/a%20b").status_code == 422
    monkeypatch.setattr(concurrency_limits, "LIMITS_MOST", 0)
    assert (limit_set(shop, 2).status_code, limit_set(shop, 1).status_code) == (409, 200)
    assert not ConcurrencyLimit.objects.exists()
    assert not AuditEntry.objects.filter(act="concurrency limit set").exists()


@pytest.mark.contract("DPP-88")
@pytest.mark.parametrize("tenants", [1, 20])
def test_dpp_88_the_next_of_a_long_line_is_found_without_reading_it(tenant: Tenant, tenants: int) -> None:
    """As it stands a moment after a flood, of which the planner has heard nothing."""
    del tenant
    with transaction.atomic(), connection.cursor() as cursor:
        owners = [recovery.funded().tenant_id for _ in range(tenants)]
        bulk.in_line(cursor, owners=owners, count=3_000)
        cursor.execute(
            f"EXPLAIN (ANALYZE, FORMAT TEXT) {for_worker._in_line()}",
            {"named": uuid.uuid4(), "packs": ["probe", "decision"], "own_too": True},
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())
        transaction.set_rollback(True)
    assert "Sort" not in plan, plan
    assert max(float(rows) for rows in re.findall(r"actual time=\S+ rows=([\d.]+)", plan)) <= 1, plan
