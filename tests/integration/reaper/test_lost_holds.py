"""A hold that Redis lost is not taken for one that was never made: its refund gives the money back (HRD-04).

One that is no amount is lost as well: its run ends once, and is charged once.
"""

from collections.abc import Callable
from typing import Any

import pytest

from budget import services
from budget.outcomes import AskAgain, Held
from budget.redis import keys, scripts
from reaper import claim_reconciler, hold_auditor, reservation_sweeper
from runs import transitions
from runs.cancel import cancellation
from runs.models import Run
from runs.reads.for_budget import created_at_ms
from tenants.models import Tenant
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("HRD-04")]


def gone(run: Run) -> None:
    """The hold, and an hour later its reserve key."""
    client = scripts.shared_scripts().client
    assert client.hdel(keys.holds_key(run.tenant_id), str(run.run_id)) == 1
    client.delete(keys.reserve_key(str(run.run_id)))


def tombstone(run: Run) -> None:
    """At the worst somebody took it for never made."""
    gone(run)
    scripts.shared_scripts().refund_full(tenant_id=run.tenant_id, run_id=str(run.run_id), was_held=False)


def a_word(run: Run) -> None:
    assert scripts.shared_scripts().client.hset(keys.holds_key(run.tenant_id), str(run.run_id), "abc") == 0


def no_hash(run: Run) -> None:
    assert scripts.shared_scripts().client.set(keys.holds_key(run.tenant_id), "x")


every_loss = pytest.mark.parametrize("lose", [gone, tombstone, a_word, no_hash], ids=lambda lose: lose.__name__)
unreadable = pytest.mark.parametrize("lose", [a_word, no_hash], ids=lambda lose: lose.__name__)


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


@every_loss
@pytest.mark.parametrize("end", [swept, canceled, reconciled], ids=lambda end: end.__name__)
def test_hrd_04_a_refund_of_a_lost_hold_gives_the_money_back(
    end: Callable[[Run], None], lose: Callable[[Run], None], tenant: Tenant
) -> None:
    run = recovery.queued(tenant)
    lose(run)
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - gear.RESERVED_MICROS
    end(run)
    ended = gear.row(run.run_id)
    assert (ended.finalize_stage, ended.status, ended.money_state) == ("COMMITTED", "FAILED", "REFUNDED")
    assert (ended.actual_cost_usd_micros, recovery.charges(run)) == (0, [])
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS
    assert recovery.held_micros(tenant) == {}
    recovery.law_holds(tenant)


@unreadable
def test_hrd_04_a_run_whose_hold_is_no_amount_ends_once_and_is_charged_once(
    lose: Callable[[Run], None], tenant: Tenant
) -> None:
    run, beside = recovery.left_claimed(tenant), recovery.queued(tenant)
    lose(run)
    assert [recovery.run_loop(claim_reconciler.reconcile_claims).changed for _ in range(2)] == [1, 0]
    ended = gear.row(run.run_id)
    assert (ended.finalize_stage, ended.status, ended.money_state) == ("COMMITTED", "COMPLETED", "SETTLED")
    assert (ended.actual_cost_usd_micros, recovery.charges(run)) == (gear.ACTUAL_MICROS, [-gear.ACTUAL_MICROS])
    assert recovery.held_micros(tenant) == {str(beside.run_id): gear.RESERVED_MICROS}
    left = recovery.FUNDS_MICROS - gear.ACTUAL_MICROS - gear.RESERVED_MICROS
    assert recovery.balance_micros(tenant) == left
    recovery.law_holds(tenant)


@unreadable
def test_hrd_04_a_submit_that_asks_again_for_a_hold_that_is_no_amount_has_it_held_once(
    lose: Callable[[Run], None], tenant: Tenant
) -> None:
    run = recovery.unmarked(tenant)
    lose(run)
    asked: dict[str, Any] = {
        "tenant_id": tenant.tenant_id,
        "run_id": str(run.run_id),
        "reserved_micros": gear.RESERVED_MICROS,
        "created_at_ms": created_at_ms(run.created_at),
    }
    assert services.hold(**asked) == AskAgain()
    assert services.hold(**asked) == Held(recovery.FUNDS_MICROS - gear.RESERVED_MICROS)
    assert recovery.held_micros(tenant) == {str(run.run_id): gear.RESERVED_MICROS}


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
