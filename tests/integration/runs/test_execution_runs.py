"""A run at its worker: every way a pack ends, what is stored, what is charged, and what a loser does: nothing."""

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis

from budget import services
from dpp_project.constants import LEASE_TTL_SECONDS
from dpp_project.reasons import ReasonCode
from runs import transitions
from runs.box.box import Box
from runs.box.outcomes import Done
from runs.bucket import storage
from runs.claims import Claim, Lost, Moved
from runs.intents import Intent
from runs.lease_key import lease_key
from runs.models import Run
from runs.packs import registry
from runs.packs.pack import EngineUnavailable, PackFailed
from runs.states import MoneyState, Stage, Status
from runs.submit import wake_worker
from runs.worker import execution, leases, starting, store_result
from runs.worker.execution import End
from tenants.models import Tenant
from tests.gear.builders import recovery, work
from tests.gear.builders import runs as gear
from tests.gear.faults.rivals import OnAnotherConnection
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.usefixtures("worker_here")

FEE = gear.FEE_MICROS
HELD = gear.RESERVED_MICROS


def ended(run: Run, tenant: Tenant, *, status: Status, money: MoneyState, charge: int) -> Run:
    """The row is over, charged once, in the ledger once, and all money is accounted for."""
    found = gear.row(run.run_id)
    assert (found.status, found.money_state, found.finalize_stage) == (status, money, Stage.COMMITTED)
    assert found.actual_cost_usd_micros == charge
    assert recovery.charges(run) == ([-charge] if charge else [])
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - charge
    assert recovery.held_micros(tenant) == {}
    recovery.law_holds(tenant)
    return found


# The ways a run ends.


@pytest.mark.contract("DPP-33", "DPP-34", "DPP-35", "DPP-66")
def test_dpp_34_a_run_is_worked_stored_charged_and_over(tenant: Tenant) -> None:
    run = work.queued(tenant, sleep_ms=1)
    assert work.execute(run) is End.COMMITTED
    found = ended(run, tenant, status=Status.COMPLETED, money=MoneyState.SETTLED, charge=work.PROBE_COST_MICROS)
    assert found.last_error_reason_code is None
    assert [(version, status, stage, actor) for version, status, _, stage, actor in gear.timeline(run.run_id)] == [
        (0, "QUEUED", None, "api"),
        (1, "QUEUED", None, "submit"),
        (2, "PROCESSING", None, "worker"),
        (3, "PROCESSING", "CLAIMED", "worker"),
        (4, "COMPLETED", "COMMITTED", "worker"),
    ]
    document = work.stored_envelope(found)
    assert document["data"] == {"slept_ms": 1, "allocated_mb": 0, "child_pid": None}
    assert document["cost"] == {
        "reserved_usd": "0.2500",
        "used_usd": "0.0500",
        "minimum_fee_usd": "0.0050",
        "reserved_usd_micros": 250_000,
        "used_usd_micros": 50_000,
        "minimum_fee_usd_micros": 5_000,
    }
    assert document["meta"]["trace_id"] == run.trace_id == "a-trace"


@pytest.mark.contract("DPP-33")
def test_dpp_33_the_envelope_lies_at_its_key_with_type_and_hash(tenant: Tenant) -> None:
    run = work.queued(tenant)
    work.execute(run)
    found = gear.row(run.run_id)
    key = f"dpp/{tenant.tenant_id}/{run.created_at:%Y/%m/%d}/{run.run_id}/pack_envelope.json"
    assert found.result_key == key
    content = storage.shared_run_storage().read(key, max_bytes=1_000_000)
    assert found.result_sha256 == hashlib.sha256(content).hexdigest()
    head = storage.shared_run_storage().head(key)
    assert head is not None
    assert head.content_type == "application/json; charset=utf-8"
    assert work.objects(run) == ["pack_envelope.json"]


@pytest.mark.contract("DPP-32", "DPP-33", "DPP-35")
@pytest.mark.parametrize(
    ("inputs", "timebox_sec", "reason"),
    [
        ({"fail": True}, 20, ReasonCode.PACK_FAILED),
        ({"exit": 1}, 20, ReasonCode.PACK_CRASHED),
        ({"alloc_mb": 2_000}, 20, ReasonCode.PACK_MEMORY_EXCEEDED),
        ({"sleep_ms": 60_000}, 1, ReasonCode.TIMEBOX_EXCEEDED),
        ({"cost_usd": "9.0000"}, 20, ReasonCode.PACK_FAILED),
    ],
)
def test_dpp_35_a_pack_that_fails_costs_the_minimum_fee_and_says_why(
    inputs: dict[str, Any], timebox_sec: int, reason: ReasonCode, tenant: Tenant
) -> None:
    run = work.queued(tenant, timebox_sec=timebox_sec, **inputs)
    assert work.execute(run) is End.COMMITTED
    found = ended(run, tenant, status=Status.FAILED, money=MoneyState.SETTLED, charge=FEE)
    assert found.last_error_reason_code == reason
    document = work.stored_envelope(found)
    assert (document["status"], document["problem"]["reason_code"]) == ("FAILED", reason.value)
    assert document["problem"]["detail"] == found.last_error_detail
    assert document["cost"]["used_usd"] == "0.0050"


@pytest.mark.contract("HRD-17")
def test_hrd_17_a_result_that_can_be_read_and_not_written_again_fails_its_pack(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The envelope nests it two levels deeper than its job did."""
    decided, deep = store_result.store_result, dict[str, Any]()
    for _ in range(200_000):
        deep = {"in": deep}

    def of_the_deep(run: Run, outcome: Done, **values: Any) -> Intent:
        return decided(run, replace(outcome, data=deep), **values)

    monkeypatch.setattr(store_result, "store_result", of_the_deep)
    run = work.queued(tenant)
    assert work.execute(run) is End.COMMITTED
    found = ended(run, tenant, status=Status.FAILED, money=MoneyState.SETTLED, charge=FEE)
    assert (found.last_error_reason_code, found.last_error_detail) == ("PACK_FAILED", store_result.UNFIT)
    assert work.stored_envelope(found)["problem"]["reason_code"] == "PACK_FAILED"
    assert work.objects(run) == ["pack_envelope.json"]


@pytest.mark.contract("DPP-35")
def test_dpp_35_the_minimum_fee_never_passes_the_hold(tenant: Tenant) -> None:
    run = recovery.queued(
        tenant, pack_type="probe", inputs={"fail": True}, timebox_sec=20, reserved_micros=1_200
    )  # fmt: skip
    assert work.execute(run) is End.COMMITTED
    ended(run, tenant, status=Status.FAILED, money=MoneyState.SETTLED, charge=1_200)


@pytest.mark.contract("DPP-36")
def test_dpp_36_a_pack_may_cost_its_whole_hold_and_no_more(tenant: Tenant) -> None:
    run = work.queued(tenant, cost_usd="0.2500")
    assert work.execute(run) is End.COMMITTED
    ended(run, tenant, status=Status.COMPLETED, money=MoneyState.SETTLED, charge=HELD)


def test_execution_what_the_platform_lacks_costs_nothing(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "pack_modules", lambda: {"probe": "runs.packs.not_there"})
    run = work.queued(tenant)
    assert work.execute(run) is End.COMMITTED
    found = ended(run, tenant, status=Status.FAILED, money=MoneyState.REFUNDED, charge=0)
    assert found.last_error_reason_code == ReasonCode.ENGINE_UNAVAILABLE
    assert work.stored_envelope(found)["cost"]["used_usd"] == "0.0000"


def test_execution_a_free_run_is_settled_at_zero_because_its_pack_said_so(tenant: Tenant) -> None:
    run = work.queued(tenant, cost_usd="0.0000")
    assert work.execute(run) is End.COMMITTED
    ended(run, tenant, status=Status.COMPLETED, money=MoneyState.SETTLED, charge=0)


# Who may not start.


def nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, whatever a worker might do after its start is an error."""

    def never(*_args: object, **_values: object) -> Any:
        raise AssertionError("a loser did something")

    for where, name in [
        (leases, "take_run_lease"),
        (Box, "start"),
        (store_result, "store_result"),
        (transitions, "claim_worked"),
        (execution, "finish_claim"),
        (services, "settle"),
        (services, "refund"),
        (transitions, "commit"),
        (storage.RunStorage, "put"),
    ]:
        monkeypatch.setattr(where, name, never)


@pytest.mark.contract("DPP-30", "DPP-37")
@pytest.mark.parametrize("state", ["accepted", "working", "claimed", "committed", "expired"])
def test_dpp_30_a_run_that_is_not_due_is_not_started_and_nothing_is_done(
    state: str, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Run = getattr(gear, state)()
    before = gear.everything(run.run_id)
    nothing_is_done(monkeypatch)
    assert work.execute(run) is End.NOT_STARTED
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-30")
def test_dpp_30_the_loser_of_the_start_does_nothing(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    run = work.queued(tenant)
    start = transitions.start

    def a_rival_is_faster(**values: Any) -> Moved | Lost:
        gear.won(start(**(values | {"lease_token": "theirs", "actor": "rival"})))
        return start(**values)

    monkeypatch.setattr(transitions, "start", a_rival_is_faster)
    nothing_is_done(monkeypatch)
    assert work.execute(run) is End.NOT_STARTED
    found = gear.row(run.run_id)
    assert (found.status, found.lease_token, found.version) == (Status.PROCESSING, "theirs", run.version + 1)
    assert recovery.held_micros(tenant) == {str(run.run_id): HELD}
    assert work.lease_signal(run) is None
    assert work.objects(run) == []


@pytest.mark.contract("DPP-37")
def test_dpp_37_a_message_delivered_to_two_workers_starts_once_and_charges_once(tenant: Tenant) -> None:
    run = work.queued(tenant, sleep_ms=200)
    ends = recovery.at_once(*[lambda: work.execute(run)] * 4)
    assert sorted(str(end) for end in ends) == sorted(map(str, [End.COMMITTED] + [End.NOT_STARTED] * 3))
    ended(run, tenant, status=Status.COMPLETED, money=MoneyState.SETTLED, charge=work.PROBE_COST_MICROS)
    assert work.execute(run) is End.NOT_STARTED
    assert [version for version, *_ in gear.timeline(run.run_id)] == [0, 1, 2, 3, 4]


def test_execution_an_unknown_run_is_said_so(tenant: Tenant) -> None:
    with pytest.raises(starting.UnknownRun):
        execution.execute_run(uuid.uuid4(), message=None)


def test_execution_a_pack_this_worker_does_not_know_is_left_for_one_that_does(tenant: Tenant) -> None:
    run = recovery.queued(tenant, pack_type="of-tomorrow")
    before = gear.everything(run.run_id)
    with pytest.raises(registry.UnknownPack):
        work.execute(run)
    assert gear.everything(run.run_id) == before


# Who loses the run while it works.


def at_the_end_of_the_pack(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """`act` happens after the envelope is stored, before the claim."""
    decided = store_result.store_result

    def then(*args: Any, **values: Any) -> Intent:
        intent = decided(*args, **values)
        act()
        return intent

    monkeypatch.setattr(store_result, "store_result", then)


def claimed_by(run: Run, *, actor: str) -> None:
    now = gear.row(run.run_id)
    intent = gear.fee(ReasonCode.WORKER_TIMEOUT if actor == "reaper" else ReasonCode.CANCELED_BY_OWNER)
    if actor == "reaper":
        gear.aged(now, lease_expires_at=1)
        claimed = transitions.claim_lease_expired(run=now, intent=intent, actor=actor)
    else:
        claimed = transitions.claim_canceled(run=now, intent=intent, actor=actor)
    gear.won(claimed)


@pytest.mark.contract("DPP-34")
@pytest.mark.parametrize("actor", ["reaper", "tenant"])
def test_dpp_34_the_loser_of_the_claim_settles_nothing_and_points_at_nothing(
    actor: str, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant)
    at_the_end_of_the_pack(monkeypatch, lambda: claimed_by(run, actor=actor))

    def never(**_: object) -> Any:
        raise AssertionError("the loser moved money")

    for name in ("settle", "refund"):
        monkeypatch.setattr(services, name, never)
    monkeypatch.setattr(transitions, "commit", never)
    assert work.execute(run) is End.CLAIM_LOST
    found = gear.row(run.run_id)
    assert (found.last_actor, found.result_key, found.version) == (actor, None, run.version + 2)
    assert found.intent_charge_usd_micros == FEE
    assert recovery.held_micros(tenant) == {str(run.run_id): HELD}
    assert recovery.charges(run) == []
    assert work.receipt(run) == {}


@pytest.mark.contract("DPP-34")
def test_dpp_34_the_loser_of_the_commit_does_nothing_further(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reconciler took the claim over after its time; the money has moved once, by whoever was first."""
    run = work.queued(tenant)
    settle = services.settle

    def while_the_other_takes_over(**values: Any) -> Any:
        now = gear.row(run.run_id)
        recovery.minutes_pass(now)
        gear.won(transitions.retake(run=now, actor="reconciler"))
        return settle(**values)

    monkeypatch.setattr(services, "settle", while_the_other_takes_over)
    assert work.execute(run) is End.COMMIT_LOST
    found = gear.row(run.run_id)
    assert (found.finalize_stage, found.last_actor) == (Stage.CLAIMED, "reconciler")
    assert recovery.charges(run) == []
    assert work.receipt(run)["charge_usd_micros"] == str(work.PROBE_COST_MICROS)
    monkeypatch.setattr(services, "settle", settle)
    theirs = Claim.stored(found, actor="reconciler")
    assert transitions.commit(claim=theirs, taken_micros=work.PROBE_COST_MICROS) == Moved(found.version + 1)
    ended(run, tenant, status=Status.COMPLETED, money=MoneyState.SETTLED, charge=work.PROBE_COST_MICROS)


@pytest.mark.contract("DPP-27", "DPP-31")
def test_dpp_31_a_worker_that_loses_its_lease_stops_the_pack_and_touches_nothing(
    tenant: Tenant, valkey: Redis, session_box: Box
) -> None:
    run = work.queued(tenant, sleep_ms=60_000, timebox_sec=90)
    working = OnAnotherConnection(lambda: work.execute(run))
    wait_until(lambda: gear.row(run.run_id).status == Status.PROCESSING and work.lease_signal(run), what="the start")
    assert int(str(valkey.ttl(lease_key(run.run_id)))) > LEASE_TTL_SECONDS - 10
    claimed_by(run, actor="tenant")
    before = gear.everything(run.run_id)
    valkey.delete(lease_key(run.run_id))
    wait_until(working.is_done, seconds=10, what="the pack to be stopped")
    assert working.answer() is End.STOPPED
    assert gear.everything(run.run_id) == before
    assert work.objects(run) == []
    assert recovery.held_micros(tenant) == {str(run.run_id): HELD}
    assert work.receipt(run) == {}


# What a pack may fetch.


@pytest.mark.contract("DPP-63")
def test_execution_a_pack_reads_the_uploads_of_its_own_tenant_alone(tenant: Tenant) -> None:
    key = f"{storage.upload_prefix(tenant.tenant_id)}2026/03/01/x/a.png"
    storage.shared_run_storage().put(key, b"mine", content_type="image/png")
    storage.shared_run_storage().put("uploads/t_other/a.png", b"theirs", content_type="image/png")
    read = store_result.upload_reader(tenant.tenant_id)
    assert read(key) == b"mine"
    for refused in (
        "uploads/t_other/a.png",
        f"uploads/{tenant.tenant_id}/../t_other/a.png",
        f"uploads/{tenant.tenant_id}//a.png",
        f"uploads/{tenant.tenant_id}/",
        f"uploads/{tenant.tenant_id}x/a.png",
        "",
    ):
        with pytest.raises(PackFailed, match="not one of your uploads"):
            read(refused)
    with pytest.raises(PackFailed, match="no such upload"):
        read(f"{storage.upload_prefix(tenant.tenant_id)}2026/03/01/x/b.png")


def test_execution_an_upload_that_cannot_be_had_now_is_not_the_tenants_fault(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_args: object, **_values: object) -> bytes:
        raise ConnectionError

    monkeypatch.setattr(storage.RunStorage, "read", away)
    with pytest.raises(EngineUnavailable):
        store_result.upload_reader(tenant.tenant_id)(f"{storage.upload_prefix(tenant.tenant_id)}a")


# The task around it.


@pytest.mark.contract("DPP-38")
def test_dpp_38_the_tasks_arguments_are_exactly_the_documented_message() -> None:
    from runs.tasks import execute

    assert execute.name == wake_worker.TASK == "runs.tasks.execute"
    names = execute.run.__code__.co_varnames[: execute.run.__code__.co_kwonlyargcount + 1]
    assert set(names) - {"self"} == {"run_id", "tenant_id", "pack_type", "enqueued_at", "schema_version"}
