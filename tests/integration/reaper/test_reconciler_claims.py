"""What a finisher left unfinished is carried out as it was meant, once, whatever became of Redis or S3 (DPP-42)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from budget import entries, services
from budget.models import PendingCredit
from budget.outcomes import Settled
from budget.rebuild import rebuild
from budget.redis import keys, scripts
from dpp_project.reasons import ReasonCode
from reaper import claim_reconciler, metrics
from runs import timing, transitions
from runs.bucket import storage
from runs.claims import Claim, Lost, Won
from runs.finish import finalization
from runs.finish.finalization import Committed, Unfinished
from runs.intents import Intent
from runs.models import Run
from runs.reads import for_recovery
from tenants.models import Tenant
from tests.gear.builders import beat, recovery
from tests.gear.builders import runs as gear

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-42")]


def reconcile() -> tuple[int, int, int]:
    report = recovery.run_loop(claim_reconciler.reconcile_claims)
    return report.seen, report.changed, report.errors


def settled_before(run: Run) -> None:
    outcome = services.settle(
        tenant_id=run.tenant_id, run_id=str(run.run_id), charge_micros=run.intent_charge_usd_micros or 0
    )
    assert isinstance(outcome, Settled)


def result_vanishes(run: Run) -> None:
    assert storage.shared_run_storage().delete_prefix(str(run.result_key)) == 1


def test_dpp_42_a_result_that_waits_is_delivered_and_charged(tenant: Tenant) -> None:
    run = recovery.left_claimed(tenant)
    taken_over = metrics.TAKEOVERS._value.get()
    assert reconcile() == (1, 1, 0)
    ended = gear.row(run.run_id)
    assert (ended.status, ended.money_state, ended.actual_cost_usd_micros) == ("COMPLETED", "SETTLED", 50_000)
    assert (ended.result_key, ended.result_sha256) == (run.result_key, run.result_sha256)
    assert (ended.last_error_reason_code, recovery.charges(run)) == (None, [-50_000])
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - 50_000
    assert metrics.TAKEOVERS._value.get() == taken_over + 1
    recovery.law_holds(tenant)


@pytest.mark.parametrize(
    ("intent", "money", "charged"),
    [
        (gear.fee(ReasonCode.PACK_FAILED), "SETTLED", [-gear.FEE_MICROS]),
        (gear.fee(ReasonCode.CANCELED_BY_OWNER), "SETTLED", [-gear.FEE_MICROS]),
        (Intent.full_refund(reason=ReasonCode.ENGINE_UNAVAILABLE), "REFUNDED", []),
    ],
    ids=["pack failed", "canceled", "refund"],
)
@pytest.mark.parametrize("settled", ["not settled", "settled before"])
def test_dpp_42_the_stored_intent_is_carried_out_and_nothing_else(
    intent: Intent, money: str, charged: list[int], settled: str, tenant: Tenant
) -> None:
    run = gear.aged(recovery.worker_claimed(tenant, intent=intent), finalize_claimed_at=301, lease_expires_at=900)
    if settled == "settled before":
        settled_before(run)
    assert reconcile() == (1, 1, 0)
    ended = gear.row(run.run_id)
    assert (ended.status, ended.money_state, ended.last_error_reason_code) == ("FAILED", money, intent.reason)
    assert recovery.charges(run) == charged
    assert recovery.held_micros(tenant) == {}
    recovery.law_holds(tenant)


def test_dpp_42_a_result_that_is_gone_fails_at_the_minimum_fee(tenant: Tenant) -> None:
    run = recovery.left_claimed(tenant)
    result_vanishes(run)
    assert reconcile() == (1, 1, 0)
    ended = gear.row(run.run_id)
    assert (ended.status, ended.last_error_reason_code) == ("FAILED", "RESULT_LOST")
    assert (ended.money_state, ended.actual_cost_usd_micros, ended.result_key) == ("SETTLED", gear.FEE_MICROS, None)
    assert recovery.charges(run) == [-gear.FEE_MICROS]
    recovery.law_holds(tenant)


def test_dpp_42_what_was_taken_too_much_for_a_lost_result_goes_back(tenant: Tenant) -> None:
    run = recovery.left_claimed(tenant)
    settled_before(run)
    result_vanishes(run)
    assert reconcile() == (1, 1, 0)
    ended = gear.row(run.run_id)
    assert (ended.last_error_reason_code, ended.actual_cost_usd_micros) == ("RESULT_LOST", gear.FEE_MICROS)
    assert recovery.charges(run) == [-50_000, 45_000]
    assert PendingCredit.objects.filter(entry__run_id=run.run_id).count() == 1
    recovery.law_holds(tenant)
    entries.replay_pending(limit=10, older_than=timedelta())
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - gear.FEE_MICROS
    recovery.law_holds(tenant)


def s3_says(status: int, code: str) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "HeadObject")  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    "error",
    [
        s3_says(429, "429"),
        s3_says(500, "InternalError"),
        s3_says(503, "SlowDown"),
        EndpointConnectionError(endpoint_url="s3"),
    ],
    ids=str,
)
def test_dpp_42_while_s3_does_not_say_the_row_waits_and_the_others_go_on(
    error: Exception, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, goes = (
        recovery.left_claimed(tenant),
        gear.aged(recovery.worker_claimed(tenant, intent=gear.fee()), finalize_claimed_at=301),
    )
    before = gear.everything(waits.run_id)

    def head(_self: Any, _key: str) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(storage.RunStorage, "head", head)
        report = recovery.run_loop(claim_reconciler.reconcile_claims)
    assert (report.seen, report.changed, report.errors, report.detail["waiting"]) == (2, 1, 0, 1)
    assert gear.everything(waits.run_id) == before
    assert gear.row(goes.run_id).finalize_stage == "COMMITTED"
    assert reconcile() == (1, 1, 0)
    assert gear.row(waits.run_id).status == "COMPLETED"


def test_dpp_42_a_refusal_of_one_object_is_its_rows_alone(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    refused, goes = recovery.left_claimed(tenant), recovery.left_claimed(tenant)
    before, head = gear.everything(refused.run_id), storage.RunStorage.head

    def refuses_one(self: storage.RunStorage, key: str) -> Any:
        if key == refused.result_key:
            raise s3_says(403, "403")
        return head(self, key)

    with monkeypatch.context() as patch:
        patch.setattr(storage.RunStorage, "head", refuses_one)
        report = recovery.run_loop(claim_reconciler.reconcile_claims)
    assert (report.seen, report.changed, report.errors) == (2, 1, 1)
    assert report.detail == {"skipped": {str(refused.run_id): "S3 answered 403"}}
    assert (gear.everything(refused.run_id), gear.row(goes.run_id).status) == (before, "COMPLETED")
    assert reconcile() == (1, 1, 0)
    assert gear.row(refused.run_id).status == "COMPLETED"


def test_dpp_42_an_object_that_s3_never_answers_for_is_asked_for_last(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, others = recovery.left_claimed(tenant), [recovery.left_claimed(tenant) for _ in range(2)]
    asked, head = [], storage.RunStorage.head

    def silent_for_one(self: storage.RunStorage, key: str) -> Any:
        asked.append(key)
        if key == silent.result_key:
            raise ReadTimeoutError(endpoint_url="s3")
        return head(self, key)

    monkeypatch.setattr(storage.RunStorage, "head", silent_for_one)
    assert reconcile() == (1, 0, 0)
    assert asked == [silent.result_key]
    assert reconcile() == (3, 2, 0)
    assert asked[1:] == [others[0].result_key, others[1].result_key, silent.result_key]


def test_dpp_42_a_missing_bucket_is_no_lost_result(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovery.left_claimed(tenant)
    with monkeypatch.context() as patch:
        patch.setattr(storage.shared_run_storage(), "bucket_name", "no-such-bucket")
        report = recovery.run_loop(claim_reconciler.reconcile_claims)
    assert (report.changed, report.errors, report.detail["waiting"]) == (0, 0, 1)
    assert gear.row(run.run_id).intent_status == "COMPLETED"


def claimed_299_s_ago(tenant: Tenant) -> Run:
    return gear.aged(recovery.worker_claimed(tenant), finalize_claimed_at=295)


@pytest.mark.parametrize(
    "kept",
    [
        claimed_299_s_ago,
        recovery.lease_ran_out,
        recovery.waited_an_hour,
        recovery.abandoned,
        recovery.unsent,
        recovery.past_retention,
    ],
    ids=lambda make: make.__name__,
)
def test_dpp_42_what_nobody_left_claimed_is_not_touched(kept: Callable[[Tenant], Run], tenant: Tenant) -> None:
    run = kept(tenant)
    before = gear.everything(run.run_id), recovery.held_micros(tenant)
    assert reconcile() == (0, 0, 0)
    assert (gear.everything(run.run_id), recovery.held_micros(tenant)) == before


def test_dpp_42_a_finisher_that_was_only_slow_loses_its_commit_to_the_takeover(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recovery.left_claimed(tenant)
    claim, commit = Claim.stored(run, actor="worker"), transitions.commit

    def overtaken(**values: Any) -> Won | Lost:
        with monkeypatch.context() as patch:
            patch.setattr(transitions, "commit", commit)
            assert reconcile() == (1, 1, 0)
        return commit(**values)

    with monkeypatch.context() as patch:
        patch.setattr(transitions, "commit", overtaken)
        assert finalization.finish_claim(claim) is Unfinished.LOST
    assert recovery.charges(run) == [-50_000]
    assert gear.row(run.run_id).last_actor == "reconciler"
    recovery.law_holds(tenant)


@pytest.mark.contract("DPP-34")
@pytest.mark.parametrize("edge", ["retake", "reintend"])
def test_dpp_34_a_reconciler_that_loses_the_claim_settles_nothing(
    edge: str, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one has it, and may have found the result gone meanwhile: the sum is its to settle."""
    run, step = recovery.left_claimed(tenant), getattr(transitions, edge)
    if edge == "reintend":
        result_vanishes(run)

    def second_to_step(**values: Any) -> Won | Lost:
        gear.won(step(**by_another(values)))
        lost: Won | Lost = step(**values)
        return lost

    monkeypatch.setattr(transitions, edge, second_to_step)
    assert reconcile() == (1, 0, 0)
    assert recovery.held_micros(tenant) == {str(run.run_id): gear.RESERVED_MICROS}
    assert (gear.row(run.run_id).last_actor, recovery.charges(run)) == ("another", [])
    recovery.law_holds(tenant)


def by_another(values: dict[str, Any]) -> dict[str, Any]:
    if "claim" in values:
        return values | {"claim": replace(values["claim"], actor="another")}
    return values | {"actor": "another"}


def test_dpp_42_without_faults_nothing_is_taken_over(tenant: Tenant) -> None:
    taken_over = metrics.TAKEOVERS._value.get()
    for _ in range(10):
        claim = Claim.stored(recovery.worker_claimed(tenant), actor="worker")
        assert finalization.finish_claim(claim) == Committed(4)
        assert reconcile() == (0, 0, 0)
    assert metrics.TAKEOVERS._value.get() == taken_over


# What Redis lost meanwhile.


def hold_is_lost(tenant: Tenant, run: Run) -> None:
    client = scripts.shared_scripts().client
    client.hdel(keys.holds_key(tenant.tenant_id), str(run.run_id))
    client.delete(keys.reserve_key(str(run.run_id)))


def balance_is_lost(tenant: Tenant, _run: Run) -> None:
    scripts.shared_scripts().client.delete(keys.balance_key(tenant.tenant_id))


def receipt_has_expired(tenant: Tenant, run: Run) -> None:
    settled_before(run)
    assert tenant.tenant_id == run.tenant_id
    assert scripts.shared_scripts().client.delete(keys.receipt_key(str(run.run_id))) == 1


@pytest.mark.contract("DPP-53")
@pytest.mark.parametrize("lose", [hold_is_lost, balance_is_lost, receipt_has_expired], ids=lambda lose: lose.__name__)
def test_dpp_53_money_that_redis_lost_is_made_again_and_settled_once(
    lose: Callable[[Tenant, Run], None], tenant: Tenant
) -> None:
    run = recovery.left_claimed(tenant)
    lose(tenant, run)
    assert reconcile() == (1, 1, 0)
    assert recovery.charges(run) == [-50_000]
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - 50_000
    assert recovery.held_micros(tenant) == {}
    recovery.law_holds(tenant)


@pytest.mark.contract("DPP-55")
@pytest.mark.parametrize("settled", ["not settled", "settled before"])
def test_dpp_55_a_claim_older_than_a_flush_is_finished_after_the_rebuild(settled: str, tenant: Tenant) -> None:
    run = recovery.left_claimed(tenant)
    if settled == "settled before":
        settled_before(run)
    scripts.shared_scripts().client.flushall()
    assert recovery.run_loop(claim_reconciler.reconcile_claims).detail == {"waits_for": "money"}
    assert gear.row(run.run_id).finalize_stage == "CLAIMED"
    rebuild.rebuild_all()
    assert reconcile() == (1, 1, 0)
    assert recovery.charges(run) == [-50_000]
    assert recovery.held_micros(tenant) == {}
    recovery.law_holds(tenant)


@pytest.mark.contract("DPP-55")
@pytest.mark.parametrize("times", [1, 2, 3])
def test_dpp_55_a_rebuild_between_settle_and_commit_is_followed_and_charged_once(
    times: int, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, commit, left = recovery.left_claimed(tenant), transitions.commit, [times]

    def rebuilt_before(**values: Any) -> Won | Lost:
        if left[0]:
            left[0] -= 1
            rebuild.rebuild_all()
        return commit(**values)

    with monkeypatch.context() as patch:
        patch.setattr(transitions, "commit", rebuilt_before)
        finished = recovery.run_loop(claim_reconciler.reconcile_claims)
    if times == finalization.TURNS:
        assert (finished.changed, finished.detail["waiting"]) == (0, 1)
        recovery.law_holds(tenant)
        recovery.minutes_pass(run)
        assert reconcile() == (1, 1, 0)
    else:
        assert finished.changed == 1
    assert recovery.charges(run) == [-50_000]
    assert recovery.held_micros(tenant) == {}
    recovery.law_holds(tenant)


def test_dpp_42_a_claim_taken_over_in_this_pass_is_not_taken_over_again_in_it(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if claims were old as they are made: whatever their age, a pass comes to an end."""
    runs = [recovery.left_claimed(tenant) for _ in range(3)]
    monkeypatch.setattr(timing, "RECONCILE_AFTER_SECONDS", -1)
    monkeypatch.setattr(for_recovery, "BATCH", 1)
    left = [len(runs)]

    def cannot_move(_claim: Claim) -> Unfinished:
        left[0] -= 1
        if left[0] < 0:
            raise recovery.Died  # round and round
        return Unfinished.WAITING

    with monkeypatch.context() as patch:
        patch.setattr(finalization, "finish_claim", cannot_move)
        report = recovery.run_loop(claim_reconciler.reconcile_claims)
    assert (report.seen, report.changed, report.errors, report.detail) == (3, 0, 0, {"waiting": 3})


def test_dpp_42_it_comes_each_minute_and_a_crashed_claim_ends_within_five_minutes_and_a_tick(tenant: Tenant) -> None:
    assert list(beat.seconds_of("claim_reconciler", until=180)) == [0, 60, 120, 180]
    run = recovery.worker_claimed(tenant)
    age = beat.age_after_passes(
        "claim_reconciler", run, until=lambda: gear.row(run.run_id).finalize_stage == "COMMITTED", within=360
    )
    assert age == 345
    assert recovery.charges(run) == [-50_000]
