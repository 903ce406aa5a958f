"""A worker dies around each of its effects; recovery comes by; the run has ended once and all money is there."""

from dataclasses import dataclass
from typing import Any

import pytest
from redis import Redis

from budget import services
from budget.redis import keys
from dpp_project.reasons import ReasonCode
from reaper import claim_reconciler, hold_auditor, lease_reaper, requeuer, reservation_sweeper
from runs import transitions
from runs.bucket import storage
from runs.claims import Claimed, Lost
from runs.models import Run
from runs.states import MoneyState, Stage, Status
from runs.worker import leases
from runs.worker.execution import End
from tenants.models import Tenant
from tests.gear.builders import recovery, work
from tests.gear.builders import runs as gear

pytestmark = [pytest.mark.contract("DPP-34", "DPP-40", "DPP-42"), pytest.mark.usefixtures("worker_here")]

FEE, COST = gear.FEE_MICROS, work.PROBE_COST_MICROS
LOOPS = (
    lease_reaper.reap_leases,
    claim_reconciler.reconcile_claims,
    reservation_sweeper.sweep_reservations,
    requeuer.requeue_runs,
    hold_auditor.audit_holds,
)


@dataclass(frozen=True)
class Effect:
    name: str
    where: Any
    attribute: str


EFFECTS = (
    Effect("start", transitions, "start"),
    Effect("lease", leases, "take_run_lease"),
    Effect("envelope", storage.RunStorage, "put"),
    Effect("claim", transitions, "claim_worked"),
    Effect("settle", services, "settle"),
    Effect("commit", transitions, "commit"),
)


def dies(monkeypatch: pytest.MonkeyPatch, effect: Effect, *, after: bool) -> None:
    does = getattr(effect.where, effect.attribute)

    def dying(*args: Any, **values: Any) -> Any:
        if after:
            does(*args, **values)
        raise recovery.Died

    monkeypatch.setattr(effect.where, effect.attribute, dying)


def everybody_recovers(run: Run) -> None:
    """An hour later, and then the message once more: each loop twice, in any order it likes."""
    now = gear.row(run.run_id)
    if now.lease_expires_at is not None and now.finalize_stage is None:
        gear.aged(now, lease_expires_at=1)
    if now.finalize_stage == Stage.CLAIMED:
        gear.aged(now, finalize_claimed_at=301)
    for _ in range(2):
        for loop in LOOPS:
            recovery.run_loop(loop)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.name)
@pytest.mark.parametrize("fails", [False, True], ids=["done", "failed"])
def test_dpp_34_whatever_dies_the_run_ends_once_and_is_charged_once(
    *, effect: Effect, after: bool, fails: bool, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant, fail=fails)
    with monkeypatch.context() as patch:
        dies(patch, effect, after=after)
        with pytest.raises(recovery.Died):
            work.execute(run)
    never_started = effect.name == "start" and not after
    everybody_recovers(run)
    assert work.execute(run) is (End.COMMITTED if never_started else End.NOT_STARTED)
    found = gear.row(run.run_id)
    reached_the_claim = (effect.name, after) == ("claim", True) or effect.name in {"settle", "commit"} or never_started
    reason = ReasonCode.PACK_FAILED if fails else None
    expected = (
        (Status.FAILED if fails else Status.COMPLETED, reason, FEE if fails else COST)
        if reached_the_claim
        else (Status.FAILED, ReasonCode.WORKER_TIMEOUT, FEE)
    )
    assert (found.status, found.last_error_reason_code, found.actual_cost_usd_micros) == expected
    assert (found.finalize_stage, found.money_state) == (Stage.COMMITTED, MoneyState.SETTLED)
    assert (found.result_key is not None) is reached_the_claim
    assert recovery.charges(run) == [-expected[2]]
    assert recovery.held_micros(tenant) == {}
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - expected[2]
    recovery.law_holds(tenant)


@pytest.mark.contract("DPP-33")
def test_dpp_33_an_object_without_a_pointer_is_all_that_a_death_before_the_claim_leaves(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant)
    with monkeypatch.context() as patch:
        dies(patch, EFFECTS[3], after=False)
        with pytest.raises(recovery.Died):
            work.execute(run)
    assert work.objects(run) == [storage.ENVELOPE_NAME]
    everybody_recovers(run)
    found = gear.row(run.run_id)
    assert (found.result_bucket, found.result_key, found.result_sha256) == (None, None, None)


@pytest.mark.contract("DPP-53")
def test_dpp_53_a_hold_lost_between_claim_and_settle_is_made_again_and_charged_once(
    tenant: Tenant, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant)
    claim = transitions.claim_worked

    def and_the_hold_is_lost(**values: Any) -> Claimed | Lost:
        outcome = claim(**values)
        valkey.delete(keys.holds_key(tenant.tenant_id), keys.reserve_key(str(run.run_id)))
        return outcome

    monkeypatch.setattr(transitions, "claim_worked", and_the_hold_is_lost)
    assert work.execute(run) is End.COMMITTED
    assert recovery.charges(run) == [-COST]
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - COST
    recovery.law_holds(tenant)
