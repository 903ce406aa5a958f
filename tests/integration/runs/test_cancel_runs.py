"""`POST /v1/runs/{id}/cancel`: what it costs, what it stops, and that one winner ends the run (DPP-27)."""

import dataclasses
import uuid
from typing import Any

import pytest

from budget.rebuild import rebuild
from budget.redis import keys
from dpp_project.reasons import ReasonCode
from dpp_project.stores import redis
from reaper import claim_reconciler
from runs import transitions
from runs.cancel import cancellation
from runs.cancel.cancellation import Canceled, NotCancelable
from runs.claims import LOST, Lease, Lost, Moved
from runs.finish.finalization import Committed, finish_claim
from runs.intents import Intent
from runs.lease_key import lease_key
from runs.models import Run, RunInputs
from runs.worker import leases
from tenants.scopes import Scope
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.recovery import FUNDS_MICROS
from tests.gear.builders.shop import RUNS, Shop, a_request_key
from tests.gear.builders.tenants import a_key, bearer
from tests.gear.faults import rivals
from tests.gear.faults.proxy import Mode

pytestmark = pytest.mark.contract("DPP-27")
FEE_MICROS = 5_000


def submitted(shop: Shop) -> Run:
    return gear.row(uuid.UUID(shop.submit().json()["run_id"]))


def started(shop: Shop) -> Run:
    run = submitted(shop)
    gear.won(transitions.start(run_id=run.run_id, version=run.version, lease_token="lease", actor="worker"))
    assert leases.take_run_lease(Lease(run.run_id, "lease"))
    return gear.row(run.run_id)


def has_inputs(run: Run) -> bool:
    sent = RunInputs.objects.get(run_id=run.run_id)
    return (sent.inputs, sent.artifacts) != ({}, None)


def end_of(run: Run) -> tuple[str, str, str | None]:
    ended = gear.row(run.run_id)
    return ended.status, ended.money_state, ended.last_error_reason_code


def costs_nothing(shop: Shop, run: Run) -> None:
    ended = gear.row(run.run_id)
    assert (ended.status, ended.money_state, ended.last_error_reason_code) == (
        "FAILED",
        "REFUNDED",
        "CANCELED_BY_OWNER",
    )
    assert (shop.holds(), shop.balance_micros(), recovery.charges(run)) == ({}, FUNDS_MICROS, [])
    recovery.law_holds(shop.tenant)


def costs_the_fee(shop: Shop, run: Run) -> None:
    assert end_of(run) == ("FAILED", "SETTLED", "CANCELED_BY_OWNER")
    assert (shop.holds(), shop.balance_micros()) == ({}, FUNDS_MICROS - FEE_MICROS)
    assert recovery.charges(run) == [-FEE_MICROS]
    recovery.law_holds(shop.tenant)


def test_dpp_27_a_queued_run_is_canceled_for_nothing(shop: Shop) -> None:
    run = submitted(shop)
    response = shop.cancel(str(run.run_id))
    body = response.json()
    assert (response.status_code, body["status"], body["money_state"]) == (200, "FAILED", "REFUNDED")
    assert body["result"]["reason_code"] == "CANCELED_BY_OWNER"
    assert body["cost"] | {"minimum_fee": ""} == {
        "reserved": "0.2500",
        "used": "0.0000",
        "minimum_fee": "",
        "budget_remaining": "10.0000",
        "reserved_usd_micros": 250_000,
        "used_usd_micros": 0,
        "minimum_fee_usd_micros": 5_000,
        "budget_remaining_usd_micros": 10_000_000,
    }
    assert response.headers["X-DPP-Budget-Remaining"] == "10.0000"
    costs_nothing(shop, run)
    assert transitions.start(run_id=run.run_id, version=run.version, lease_token="x", actor="worker") is LOST


def test_dpp_27_a_run_at_work_is_canceled_for_the_minimum_fee_and_its_worker_told(shop: Shop) -> None:
    run = started(shop)
    response = shop.cancel(str(run.run_id))
    assert (response.status_code, response.json()["money_state"]) == (200, "SETTLED")
    assert response.json()["cost"]["used"] == "0.0050"
    assert redis.redis_client().get(lease_key(run.run_id)) is None
    assert transitions.renew(leases=[Lease(run.run_id, "lease")]) == set()
    costs_the_fee(shop, run)


def test_dpp_27_the_canceler_stands_in_the_history(shop: Shop) -> None:
    run = submitted(shop)
    shop.cancel(str(run.run_id))
    assert gear.timeline(run.run_id)[-1][-1] == f"owner:dpp_{shop.issued.key.prefix}"


@pytest.mark.parametrize("ended_by", ["worker", "owner"])
def test_dpp_27_a_run_that_has_ended_cannot_be_canceled(shop: Shop, ended_by: str) -> None:
    run = started(shop)
    if ended_by == "owner":
        shop.cancel(str(run.run_id))
    else:
        worker_fails(run)
    before = gear.everything(run.run_id)
    response = shop.cancel(str(run.run_id))
    assert (response.status_code, response.json()["reason_code"]) == (409, "RUN_NOT_CANCELABLE")
    assert response.json()["detail"] == "The run is FAILED."
    assert response.json()["run_id"] == str(run.run_id)
    assert response.headers["X-DPP-Cost-Used"] == "0.0050"
    assert gear.everything(run.run_id) == before


def worker_fails(run: Run, *, commit: bool = True) -> None:
    intent = Intent.minimum_fee(
        minimum_fee_micros=FEE_MICROS,
        reserved_micros=run.reservation_max_cost_usd_micros,
        reason=ReasonCode.PACK_FAILED,
    )
    claimed = gear.won(transitions.claim_worked(run=run, lease_token="lease", token="t", intent=intent, actor="worker"))
    if commit:
        assert finish_claim(claimed.claim) == Committed(run.version + 2)


def test_dpp_27_a_run_that_is_being_finished_cannot_be_canceled(shop: Shop) -> None:
    run = started(shop)
    worker_fails(run, commit=False)
    before = gear.everything(run.run_id)
    response = shop.cancel(str(run.run_id))
    assert (response.status_code, response.json()["detail"]) == (409, "The run is PROCESSING and being finished.")
    assert gear.everything(run.run_id) == before
    assert redis.redis_client().get(lease_key(run.run_id)) == "lease", "a worker that finishes is left alone"


def cancel(shop: Shop, run: Run) -> Any:
    return cancellation.cancel_run(tenant_id=shop.tenant.tenant_id, run_id=run.run_id, actor="test")


def test_dpp_27_of_cancel_and_start_one_wins(shop: Shop) -> None:
    run = submitted(shop)

    def start() -> Moved | Lost:
        return transitions.start(run_id=run.run_id, version=run.version, lease_token="lease", actor="worker")

    started_first, canceled = rivals.one_after_the_other(start, lambda: cancel(shop, run))
    assert started_first == Moved(run.version + 1)
    assert isinstance(canceled, Canceled)
    costs_the_fee(shop, run)


def test_dpp_27_of_cancel_and_finish_one_wins(shop: Shop) -> None:
    run = started(shop)
    _, canceled = rivals.one_after_the_other(lambda: worker_fails(run, commit=False), lambda: cancel(shop, run))
    assert isinstance(canceled, NotCancelable)
    assert gear.row(run.run_id).intent_reason_code == "PACK_FAILED"


def test_dpp_27_ten_cancels_at_once_end_the_run_once(shop: Shop) -> None:
    run = started(shop)
    answers = recovery.at_once(*[lambda: cancel(shop, run)] * 10)
    assert sum(isinstance(answer, Canceled) for answer in answers) == 1
    assert sum(isinstance(answer, NotCancelable) for answer in answers) == 9
    costs_the_fee(shop, run)


def test_dpp_27_a_run_that_keeps_moving_is_not_canceled_by_force(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    run = submitted(shop)
    monkeypatch.setattr(transitions, "claim_canceled", lambda **_: LOST)
    assert isinstance(cancel(shop, run), NotCancelable)
    assert gear.row(run.run_id).finalize_stage is None


def test_dpp_27_while_money_is_closed_the_claim_stands_and_the_reconciler_pays(shop: Shop) -> None:
    run = submitted(shop)
    redis.redis_client().delete(keys.EPOCH)
    response = shop.cancel(str(run.run_id))
    assert (response.status_code, response.json()["status"]) == (202, "QUEUED")
    claimed = gear.row(run.run_id)
    assert (claimed.finalize_stage, claimed.intent_reason_code) == ("CLAIMED", "CANCELED_BY_OWNER")
    rebuild.rebuild_all()
    recovery.minutes_pass(claimed)
    recovery.run_loop(claim_reconciler.reconcile_claims)
    costs_nothing(shop, run)


def test_dpp_27_without_redis_the_claim_stands_and_the_worker_finds_out_by_its_heartbeat(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(shop)
    with recovery.redis_through_proxy(monkeypatch) as proxy, proxy.outage(Mode.REFUSE):
        assert shop.cancel(str(run.run_id)).status_code == 202
    assert gear.row(run.run_id).intent_reason_code == "CANCELED_BY_OWNER"
    assert transitions.renew(leases=[Lease(run.run_id, "lease")]) == set()


@pytest.mark.contract("DPP-42")
@pytest.mark.parametrize("step", ["claim_canceled", "commit"])
def test_dpp_27_death_between_claim_and_end_is_mended(shop: Shop, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(shop)
    real = getattr(transitions, step)

    def die(**arguments: Any) -> Any:
        if step == "claim_canceled":
            real(**arguments)
        raise recovery.Died

    with monkeypatch.context() as patch:
        patch.setattr(transitions, step, die)
        with pytest.raises(recovery.Died):
            cancel(shop, run)
    recovery.minutes_pass(gear.row(run.run_id))
    recovery.run_loop(claim_reconciler.reconcile_claims)
    costs_the_fee(shop, run)


def test_dpp_27_reading_keys_cannot_cancel(shop: Shop) -> None:
    run = submitted(shop)
    reader = a_key(shop.tenant, scopes=[Scope.RUNS_READ])
    response: Any = shop.client.post(f"{RUNS}/{run.run_id}/cancel", headers=bearer(reader))
    assert (response.status_code, response.json()["reason_code"]) == (403, "SCOPE_MISSING")
    assert gear.row(run.run_id).finalize_stage is None


@pytest.mark.contract("HRD-20")
def test_hrd_20_a_canceled_runs_inputs_go_with_its_refund_and_no_others(shop: Shop) -> None:
    run, other = submitted(shop), submitted(shop)
    assert shop.cancel(str(run.run_id)).status_code == 200
    assert end_of(run) == ("FAILED", "REFUNDED", "CANCELED_BY_OWNER")
    assert (has_inputs(run), has_inputs(other)) == (False, True)


@pytest.mark.contract("HRD-20")
def test_hrd_20_a_run_that_is_charged_keeps_its_inputs_to_its_retention(shop: Shop) -> None:
    run = started(shop)
    assert shop.cancel(str(run.run_id)).json()["money_state"] == "SETTLED"
    assert has_inputs(run)


@pytest.mark.contract("HRD-20")
def test_hrd_20_inputs_go_with_the_commit_of_a_refund_not_with_its_claim_nor_its_loser(shop: Shop) -> None:
    """Sweeper, dead letters, abandoned and unsent submits end by this commit too."""
    run = submitted(shop)
    intent = Intent.full_refund(reason=ReasonCode.RESERVATION_EXPIRED, detail="")
    claimed = transitions.claim_unsent(run=run, intent=intent, actor="sweeper")
    assert not isinstance(claimed, Lost)
    assert has_inputs(run), "its finisher may die"
    stale = dataclasses.replace(claimed.claim, version=claimed.claim.version - 1)
    assert transitions.commit(claim=stale, taken_micros=0) is LOST
    assert has_inputs(run)
    assert isinstance(finish_claim(claimed.claim), Committed)
    assert not has_inputs(run)


@pytest.mark.contract("HRD-20", "DPP-04")
def test_hrd_20_a_refunded_runs_key_still_answers_its_receipt_and_its_document(shop: Shop) -> None:
    key = a_request_key()
    first = shop.submit(key=key)
    run_id = first.json()["run_id"]
    assert shop.cancel(run_id).status_code == 200
    assert not has_inputs(gear.row(uuid.UUID(run_id)))
    again = shop.submit(key=key)
    assert (again.status_code, again.content, again.headers["Idempotent-Replayed"]) == (202, first.content, "true")
    read = shop.client.get(f"{RUNS}/{run_id}", headers=bearer(shop.issued))
    assert (read.status_code, read.json()["status"]) == (200, "FAILED")
