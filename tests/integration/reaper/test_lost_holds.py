"""A hold that Redis lost is not taken for one that was never made: its refund gives the money back (HRD-04)."""

from collections.abc import Callable

import pytest

from budget.redis import keys, scripts
from reaper import claim_reconciler, hold_auditor, reservation_sweeper
from runs import transitions
from runs.cancel import cancellation
from runs.models import Run
from tenants.models import Tenant
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("HRD-04")]


def lose_hold(run: Run, *, tombstone: bool = False) -> None:
    """The hold is gone, and an hour later its reserve key; at the worst somebody took it for never made."""
    client = scripts.shared_scripts().client
    assert client.hdel(keys.holds_key(run.tenant_id), str(run.run_id)) == 1
    client.delete(keys.reserve_key(str(run.run_id)))
    if tombstone:
        scripts.shared_scripts().refund_full(tenant_id=run.tenant_id, run_id=str(run.run_id), was_held=False)


def swept(run: Run) -> None:
    gear.aged(run, created_at=3_601)
    assert recovery.run_loop(reservation_sweeper.sweep_reservations).changed == 1


def canceled(run: Run) -> None:
    answer = cancellation.cancel_run(tenant_id=run.tenant_id, run_id=run.run_id, actor="owner")
    assert isinstance(answer, cancellation.Canceled)
    assert answer.ended


def reconciled(run: Run) -> None:
    """Its owner's cancel died after the claim."""
    gear.won(transitions.claim_canceled(run=run, intent=gear.REFUND, actor="owner"))
    recovery.minutes_pass(run)
    assert recovery.run_loop(claim_reconciler.reconcile_claims).changed == 1


@pytest.mark.parametrize("tombstone", [False, True], ids=["gone", "tombstone"])
@pytest.mark.parametrize("end", [swept, canceled, reconciled], ids=lambda end: end.__name__)
def test_hrd_04_a_refund_of_a_lost_hold_gives_the_money_back(
    end: Callable[[Run], None], tenant: Tenant, *, tombstone: bool
) -> None:
    run = recovery.queued(tenant)
    lose_hold(run, tombstone=tombstone)
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - gear.RESERVED_MICROS
    end(run)
    ended = gear.row(run.run_id)
    assert (ended.finalize_stage, ended.status, ended.money_state) == ("COMMITTED", "FAILED", "REFUNDED")
    assert (ended.actual_cost_usd_micros, recovery.charges(run)) == (0, [])
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS
    assert recovery.held_micros(tenant) == {}
    recovery.law_holds(tenant)


def test_hrd_04_a_submit_that_never_held_still_leaves_its_tombstone(tenant: Tenant) -> None:
    """Only the row's word tells the two apart: here it says NONE, and no tenant is rebuilt for it."""
    run = gear.aged(gear.accepted(tenant_id=tenant.tenant_id), updated_at=61)
    seq = scripts.shared_scripts().client.get(keys.seq_key(tenant.tenant_id))
    assert recovery.run_loop(hold_auditor.audit_holds).changed == 1
    assert gear.row(run.run_id).money_state == "REFUNDED"
    assert scripts.shared_scripts().client.get(keys.receipt_key(str(run.run_id))) == (
        f"0 0 {recovery.FUNDS_MICROS} {tenant.tenant_id}"
    )
    assert scripts.shared_scripts().client.get(keys.seq_key(tenant.tenant_id)) == str(int(str(seq)) + 1)
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS
