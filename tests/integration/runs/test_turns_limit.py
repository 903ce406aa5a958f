"""A tenant that may have only so many runs at work (DPP-87, DPP-98)."""

import threading
from collections import Counter
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from dpp_project import clock
from dpp_project.refusals import Refusal
from reaper import lease_reaper, requeuer, reservation_sweeper
from runs import transitions, turns
from runs.cancel import cancellation
from runs.models import Run, RunTurn
from runs.operators import explain_run
from runs.submit import next_of_key
from runs.worker import execution, starting
from runs.worker.execution import End
from runs.worker.starting import StartedRun
from tenants import services
from tenants.models import Tenant
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import messages
from tests.gear.builders.turns import KEY, in_line, stands, start, start_counting_at_once, starts

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-87")]

SMALL = 100_000


def limited_to(tenant: Tenant, most: int | None) -> Tenant:
    Tenant.objects.filter(pk=tenant.pk).update(most_at_work=most)
    return tenant


def ended(run: Run) -> None:
    canceled = cancellation.cancel_run(tenant_id=run.tenant_id, run_id=run.run_id, actor="owner")
    assert isinstance(canceled, cancellation.Canceled)
    assert canceled.ended


def test_dpp_87_a_limit_keeps_back_what_it_has_no_room_for_and_an_end_wakes_the_next(tenant: Tenant) -> None:
    other = recovery.funded()
    runs = [in_line(limited_to(tenant, 2)) for _ in range(4)]
    theirs = in_line(other)
    assert starts(5) == {tenant.tenant_id: 2, other.tenant_id: 1}
    assert [stands(run) for run in [*runs, theirs]] == [None, None, "LIMITED", "LIMITED", None]
    assert turns.at_work_of_tenant(tenant.tenant_id) == 2
    assert messages() == []
    ended(runs[0])
    assert [one["run_id"] for one in messages()] == [str(runs[2].run_id)]
    assert starts(5) == {tenant.tenant_id: 1}
    assert [stands(run) for run in runs] == [None, None, None, "LIMITED"]
    assert set(recovery.held_micros(tenant)) == {str(run.run_id) for run in runs[1:]}


def test_dpp_87_a_tenant_without_a_limit_is_counted_by_nobody(tenant: Tenant) -> None:
    """The twin: nothing is kept back, and nobody's limit is another's."""
    limited_to(recovery.funded(), 1)
    runs = [in_line(tenant) for _ in range(4)]
    assert starts(5) == {tenant.tenant_id: 4}
    assert [stands(run) for run in runs] == [None] * 4


def test_dpp_87_no_more_than_its_limit_start_however_many_workers_come_at_once(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "_CHOOSING", threading.Semaphore(99))
    limited_to(tenant, 2)
    named = [in_line(tenant, concurrency_key=KEY if at % 2 else None) for at in range(6)][-1]
    begun = [one for one in recovery.at_once(*[lambda: start(named.run_id)] * 8) if isinstance(one, StartedRun)]
    found = [one.run.run_id for one in begun]
    assert len(found) == len(set(found)) == turns.at_work_of_tenant(tenant.tenant_id) == 2
    assert RunTurn.objects.filter(stands="WAITING").count() == 0


def test_dpp_87_two_that_count_at_once_do_not_both_take_the_last_place(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited_to(tenant, 1)
    express = [recovery.queued(tenant, pack_type="probe") for _ in range(2)]
    start_counting_at_once(express, monkeypatch, count="room_of_tenant")
    assert turns.at_work_of_tenant(tenant.tenant_id) == 1
    assert sorted(str(stands(run)) for run in express) == ["LIMITED", "None"]


@pytest.mark.parametrize("died", [False, True])
def test_dpp_87_an_express_run_and_one_whose_message_died_are_kept_back_as_well(tenant: Tenant, *, died: bool) -> None:
    """They have no turn until then. Their end takes it away, whoever ends them."""
    at_work, bare = (
        recovery.at_work(limited_to(tenant, 1), pack_type="probe"),
        recovery.queued(tenant, pack_type="probe"),
    )
    if died:
        gear.won(transitions.mark_dead_lettered(run_id=bare.run_id))
    assert starting.start_run(bare.run_id, lease_token="a-token", in_turn=died) is None
    assert (stands(bare), gear.row(bare.run_id).status) == ("LIMITED", "QUEUED")
    assert recovery.run_loop(requeuer.requeue_runs).changed == 0
    ended(at_work)
    assert (stands(bare), [one["run_id"] for one in messages()]) == ("WAITING", [str(bare.run_id)])
    begun = start(bare.run_id)
    assert begun is not None
    assert begun.run.run_id == bare.run_id


def test_dpp_87_a_run_that_ends_while_it_is_kept_back_leaves_no_turn_behind(tenant: Tenant) -> None:
    recovery.at_work(limited_to(tenant, 1), pack_type="probe")
    bare, aged = recovery.queued(tenant, pack_type="probe"), in_line(tenant)
    assert start(bare.run_id) is None
    assert Counter(RunTurn.objects.values_list("stands", flat=True)) == {"LIMITED": 2}
    ended(bare)
    gear.aged(gear.row(aged.run_id), created_at=3_601)
    assert recovery.run_loop(reservation_sweeper.sweep_reservations).changed == 1
    assert not RunTurn.objects.exists()
    assert len(recovery.held_micros(tenant)) == 1


@pytest.mark.contract("DPP-98")
def test_dpp_98_a_key_without_room_leaves_its_tenants_place_to_another_run(tenant: Tenant) -> None:
    limited_to(tenant, 2)
    keyed = [in_line(tenant, concurrency_key=KEY) for _ in range(2)]
    plain = [in_line(tenant) for _ in range(2)]
    RunTurn.objects.filter(run_id=plain[0].run_id).update(stands="LIMITED")
    first = start(keyed[0].run_id)
    assert first is not None
    RunTurn.objects.filter(run_id=plain[1].run_id).update(stands="LIMITED")
    assert start(keyed[1].run_id) is not None  # the key is full: one of the limited is woken, and started
    assert [stands(run) for run in (*keyed, *plain)] == ["AT_WORK", "PARKED", None, "LIMITED"]


@pytest.mark.contract("DPP-40", "DPP-43")
def test_dpp_87_a_dead_workers_place_is_free_with_its_run_and_a_raised_limit_within_a_minute(tenant: Tenant) -> None:
    runs = [in_line(limited_to(tenant, 1)) for _ in range(3)]
    starts(3)
    gear.aged(gear.row(runs[0].run_id), lease_expires_at=1)
    assert recovery.run_loop(lease_reaper.reap_leases).changed == 1
    assert recovery.run_loop(requeuer.requeue_runs).detail["woken"] == 1
    assert starts(3) == {tenant.tenant_id: 1}
    limited_to(tenant, None)
    assert recovery.run_loop(requeuer.requeue_runs).detail["woken"] == 1
    assert starts(3) == {tenant.tenant_id: 1}
    assert not RunTurn.objects.exists()


def test_dpp_87_a_worker_wakes_the_next_when_its_own_run_has_ended(tenant: Tenant, worker_here: object) -> None:
    del worker_here
    first, second = (in_line(limited_to(tenant, 1), inputs={"sleep_ms": 1}) for _ in range(2))
    turns.keep_back(second.run_id, tenant_id="none")
    assert execution.execute_run(first.run_id, message=None, in_turn=True) is End.COMMITTED
    assert [one["run_id"] for one in messages()] == [str(second.run_id)]
    assert execution.execute_run(second.run_id, message=None, in_turn=True) is End.COMMITTED


def test_dpp_87_a_woken_run_that_finds_no_room_is_kept_back_again(tenant: Tenant) -> None:
    runs = [in_line(limited_to(tenant, 2)) for _ in range(3)]
    starts(3)
    limited_to(tenant, 3)
    assert next_of_key.wake_limited(tenant.tenant_id) == 1
    limited_to(tenant, 1)
    assert (start(runs[2].run_id), stands(runs[2])) == (None, "LIMITED")
    assert next_of_key.wake_limited(tenant.tenant_id) == 0


def test_dpp_87_an_operator_reads_what_a_run_is_kept_back_by(tenant: Tenant) -> None:
    runs = [in_line(limited_to(tenant, 1)) for _ in range(2)]
    starts(2)
    told = explain_run.explain(gear.row(runs[1].run_id), now=clock.now())
    assert told.waits_for == "a place among its tenant's runs at work, of which there are 1 and may be 1."
    assert told.next[0].actor == "the end of a run of its tenant"


def test_dpp_87_a_wrong_limit_changes_nothing(tenant: Tenant) -> None:
    values: dict[str, Any] = {"display_name": "One", "poll_rate_per_minute": 10, "submit_rate_per_minute": 10}
    for wrong in (0, 10_001):
        refused = services.update_tenant(tenant_id=tenant.pk, most_at_work=wrong, actor="test", **values)
        assert isinstance(refused, Refusal)
        assert refused.field == "most_at_work"
    assert Tenant.objects.get(pk=tenant.pk).most_at_work is None
    assert not isinstance(services.update_tenant(tenant_id=tenant.pk, most_at_work=3, actor="test", **values), Refusal)
    assert Tenant.objects.get(pk=tenant.pk).most_at_work == 3
    with pytest.raises(DatabaseError):
        limited_to(tenant, 0)


def test_dpp_87_an_operator_sets_the_limit_in_the_console_and_lifts_it_there(tenant: Tenant, console: Client) -> None:
    path = f"/admin/tenants/tenant/{tenant.tenant_id}/change/"
    sent = {
        "display_name": tenant.display_name,
        "poll_rate_per_minute": tenant.poll_rate_per_minute,
        "submit_rate_per_minute": tenant.submit_rate_per_minute,
        "api_keys-TOTAL_FORMS": "0",
        "api_keys-INITIAL_FORMS": "0",
    }
    assert console.post(path, sent | {"most_at_work": "2", "share_weight": "3"}).status_code == 302
    found = Tenant.objects.get(pk=tenant.pk)
    assert (found.most_at_work, found.share_weight) == (2, 3)
    refused = console.post(path, sent | {"most_at_work": "0"})
    assert (refused.status_code, Tenant.objects.get(pk=tenant.pk).most_at_work) == (200, 2)
    assert b"must be a whole number from 1 to 10000, or empty" in refused.content
    assert console.post(path, sent | {"most_at_work": ""}).status_code == 302
    assert Tenant.objects.get(pk=tenant.pk).most_at_work is None
