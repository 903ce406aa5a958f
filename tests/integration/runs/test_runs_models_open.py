"""Runs behind the port of the money: what a rebuild reads, what it fences, and that it then adds up (DPP-55)."""

from datetime import timedelta

import pytest
import redis as redis_library

from budget import entries, ports, services
from budget.entries import Entered
from budget.ports import EndedRun, OpenRun, Reserved
from budget.rebuild import rebuild
from budget.redis import keys
from budget.services import Available
from runs import transitions
from runs.claims import LOST, Moved, counted_of
from runs.models import Run
from runs.reads import for_budget
from runs.reads.for_budget import OpenRunsOfTheTable, created_at_ms
from tests.gear.builders import runs as gear
from tests.gear.builders.tenants import a_tenant

pytestmark = pytest.mark.contract("DPP-55")

FUNDS = 10_000_000


def test_dpp_55_runs_has_registered_itself() -> None:
    assert isinstance(ports.open_runs(), OpenRunsOfTheTable)


@pytest.mark.django_db
def test_dpp_55_open_names_every_run_whose_money_has_not_ended() -> None:
    runs = {state: getattr(gear, state)() for state in ("accepted", "reserved", "working", "claimed")}
    for state in ("committed", "disputed", "expired"):
        getattr(gear, state)()
    found = {run.run_id: run for run in OpenRunsOfTheTable().open(tenant_id=None)}
    assert found == {
        str(run.run_id): OpenRun(
            tenant_id=run.tenant_id,
            run_id=str(run.run_id),
            reserved_micros=gear.RESERVED_MICROS,
            created_at_ms=created_at_ms(run.created_at),
            reserved=state != "accepted",
            claimed=state == "claimed",
            counted=counted_of(run),
        )
        for state, run in runs.items()
    }


@pytest.mark.django_db
def test_dpp_55_open_of_one_tenant_is_its_own() -> None:
    run = gear.reserved()
    gear.reserved()
    assert [one.run_id for one in OpenRunsOfTheTable().open(tenant_id=run.tenant_id)] == [str(run.run_id)]


@pytest.mark.django_db
def test_dpp_55_ended_names_what_was_committed_lately() -> None:
    charged, failed, refunded = gear.committed(), gear.committed(intent=gear.fee()), gear.committed(intent=gear.REFUND)
    gear.aged(gear.committed(), updated_at=90_000)
    gear.claimed()
    found = set(OpenRunsOfTheTable().ended(tenant_id=None, within=timedelta(hours=24)))
    assert found == {
        EndedRun(charged.tenant_id, str(charged.run_id), 50_000, 200_000),
        EndedRun(failed.tenant_id, str(failed.run_id), 5_000, 245_000),
        EndedRun(refunded.tenant_id, str(refunded.run_id), 0, 250_000),
    }
    mine = OpenRunsOfTheTable().ended(tenant_id=charged.tenant_id, within=timedelta(hours=24))
    assert [one.run_id for one in mine] == [str(charged.run_id)]


@pytest.mark.django_db
def test_dpp_55_reserved_sums_what_open_names() -> None:
    run = gear.reserved()
    gear.accepted()
    gear.committed()
    more = gear.claimed()
    found = set(OpenRunsOfTheTable().reserved(tenant_id=None))
    assert found == {Reserved(one.tenant_id, 1, gear.RESERVED_MICROS) for one in (run, more)}
    assert list(OpenRunsOfTheTable().reserved(tenant_id=run.tenant_id)) == [
        Reserved(run.tenant_id, 1, gear.RESERVED_MICROS)
    ]


def versions(runs: list[Run]) -> list[int]:
    return [gear.row(run.run_id).version - run.version for run in runs]


@pytest.mark.contract("HRD-02")
@pytest.mark.django_db
def test_hrd_02_a_fence_goes_in_batches_and_goes_on_where_it_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(for_budget, "FENCED_AT_ONCE", 2)
    runs = [gear.claimed() for _ in range(5)]
    cut = iter(OpenRunsOfTheTable().fence(tenant_id=None))
    assert next(cut) == 2
    del cut
    assert sorted(versions(runs)) == [0, 0, 0, 1, 1]
    assert list(OpenRunsOfTheTable().fence(tenant_id=None)) == [2, 1]
    assert versions(runs) == [1, 1, 1, 1, 1]
    assert list(OpenRunsOfTheTable().fence(tenant_id=None)) == [], "who knows their versions has read them since"


@pytest.mark.contract("HRD-02")
@pytest.mark.django_db
def test_hrd_02_a_run_that_moved_since_its_fence_is_fenced_again() -> None:
    """A finisher that took its claim again, and a submit that was resumed."""
    claimed, accepted, still = gear.claimed(), gear.accepted(), gear.accepted()
    assert list(OpenRunsOfTheTable().fence(tenant_id=None)) == [3]
    retaken = transitions.retake(run=gear.row(claimed.run_id), actor="worker", own_token=gear.TOKEN)
    resumed = transitions.resume(run_id=accepted.run_id, version=accepted.version + 1, actor="submit")
    assert retaken is not LOST
    assert resumed is not LOST
    assert list(OpenRunsOfTheTable().fence(tenant_id=None)) == [2]
    assert transitions.commit(claim=retaken.claim, taken_micros=0) is LOST
    assert transitions.reserve(run_id=accepted.run_id, version=resumed.version, actor="submit") is LOST
    assert versions([claimed, accepted, still]) == [3, 3, 1]


@pytest.fixture
def tenant_id(transactional_db: None, valkey: redis_library.Redis) -> str:
    tenant_id = a_tenant().tenant_id
    rebuild.rebuild_all()
    entered = entries.top_up(
        tenant_id=tenant_id, amount_micros=FUNDS, reference="first", reason="funds", actor="operator:kim"
    )
    assert isinstance(entered, Entered)
    return tenant_id


def test_dpp_55_a_rebuild_finds_the_holds_of_real_runs_again(tenant_id: str, valkey: redis_library.Redis) -> None:
    runs = {state: getattr(gear, state)(tenant_id=tenant_id) for state in ("reserved", "working", "claimed")}
    gear.committed(tenant_id=tenant_id)
    unheld = gear.accepted(tenant_id=tenant_id)
    valkey.flushall()
    rebuild.rebuild_all()
    assert valkey.hgetall(keys.holds_key(tenant_id)) == {
        str(run.run_id): str(gear.RESERVED_MICROS) for run in runs.values()
    }
    assert services.balance(tenant_id=tenant_id) == Available(
        FUNDS - gear.ACTUAL_MICROS - len(runs) * gear.RESERVED_MICROS
    )
    # What stood between two effects was fenced, and nothing else.
    moved = {state: gear.row(run.run_id).version - run.version for state, run in runs.items()}
    assert moved == {"reserved": 0, "working": 0, "claimed": 1}
    assert gear.row(unheld.run_id).version == 1
    assert transitions.reserve(run_id=unheld.run_id, version=0, actor="api") is LOST


def test_dpp_55_after_a_rebuild_the_fenced_claim_is_carried_out_once(
    tenant_id: str, valkey: redis_library.Redis
) -> None:
    run = gear.claimed(tenant_id=tenant_id)
    valkey.flushall()
    rebuild.rebuild_all()
    stale = transitions.commit(claim=gear.claim_of(run), taken_micros=50_000)
    assert stale is LOST
    fenced = gear.row(run.run_id)
    again = gear.won(transitions.retake(run=fenced, own_token=gear.TOKEN, actor="worker"))
    settled = services.settle(tenant_id=tenant_id, run_id=str(run.run_id), charge_micros=gear.ACTUAL_MICROS)
    assert getattr(settled, "charge_micros", None) == gear.ACTUAL_MICROS
    assert transitions.commit(claim=again.claim, taken_micros=50_000) == Moved(6)
    assert services.balance(tenant_id=tenant_id) == Available(FUNDS - gear.ACTUAL_MICROS)
    assert not Run.objects.exclude(finalize_stage="COMMITTED").exists()
