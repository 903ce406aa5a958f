"""Each dependency away at each step of a worker, as docs/concurrency.md lists it: what the run comes to, by whom.

A short outage is waited out and leaves no trace in the run; a long one ends as the table says. Nothing is ever charged
twice, and all money is accounted for.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import OperationalError, connections
from redis import Redis

from budget import services
from budget.rebuild import rebuild
from budget.redis import keys, scripts
from dpp_project.reasons import ReasonCode
from dpp_project.stores import redis
from dpp_project.stores.postgres import DATABASE_AWAY
from reaper import claim_reconciler, lease_reaper
from runs import transitions
from runs.bucket import storage
from runs.claims import Lost, Won
from runs.lease_key import lease_key
from runs.models import Run
from runs.states import MoneyState, Stage, Status
from runs.worker import execution, leases, store_result
from runs.worker.execution import End
from tenants.models import Tenant
from tests.gear.builders import recovery, work
from tests.gear.builders import runs as gear
from tests.gear.faults.proxy import Mode, Proxy

pytestmark = [pytest.mark.contract("DPP-39"), pytest.mark.usefixtures("worker_here")]

FEE, COST = gear.FEE_MICROS, work.PROBE_COST_MICROS
SHORT_SECONDS = 0.4
LITTLE_PATIENCE_SECONDS = 0.5
every_mode = pytest.mark.parametrize("mode", [Mode.REFUSE, Mode.RESET])


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """What stands between this process and the bucket."""
    bucket = storage.shared_run_storage()
    target = urlsplit(str(bucket.endpoint_url))
    with Proxy(str(target.hostname), target.port or 80) as proxy:
        monkeypatch.setattr(bucket, "endpoint_url", proxy.url)
        yield proxy


@pytest.fixture
def money(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """What stands between this process and Redis."""
    with recovery.redis_through_proxy(monkeypatch) as proxy:
        redis.disconnect_redis()
        yield proxy
    redis.disconnect_redis()


@pytest.fixture
def postgres(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """What stands between this process and the database."""
    found = connections.settings["default"]
    with Proxy(str(found["HOST"]), int(found["PORT"])) as proxy:
        with monkeypatch.context() as patch:
            patch.setitem(found, "HOST", "127.0.0.1")
            patch.setitem(found, "PORT", proxy.port)
            patch.setitem(found["OPTIONS"]["pool"], "timeout", 1)
            _reconnect()
            yield proxy
        _reconnect()


def _reconnect() -> None:
    """Afresh: the pool's own next attempt comes the later, the longer an outage was."""
    connections["default"].close()
    connections["default"].close_pool()  # type: ignore[attr-defined]


@contextmanager
def away_from(
    proxy: Proxy, mode: Mode, where: Any, name: str, monkeypatch: pytest.MonkeyPatch, *, seconds: float | None
) -> Iterator[None]:
    """From the first call of this step on the dependency is away: for a while, or until the block ends."""
    does = getattr(where, name)
    began = threading.Event()
    back = threading.Timer(seconds or 3_600, lambda: proxy.set(Mode.PASS))

    def step(*args: Any, **values: Any) -> Any:
        if not began.is_set():
            began.set()
            proxy.set(mode)
            back.start()
        return does(*args, **values)

    with monkeypatch.context() as patch:
        patch.setattr(where, name, step)
        yield
    assert began.is_set(), f"{name} was never reached"
    back.cancel()
    proxy.set(Mode.PASS)


def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for where, name in [
        (execution, "START_PATIENCE_SECONDS"),
        (execution, "CLAIM_PATIENCE_SECONDS"),
        (execution, "FINISH_PATIENCE_SECONDS"),
        (store_result, "STORE_PATIENCE_SECONDS"),
    ]:
        monkeypatch.setattr(where, name, LITTLE_PATIENCE_SECONDS)


def completed(run: Run, tenant: Tenant) -> None:
    found = gear.row(run.run_id)
    assert (found.status, found.money_state, found.finalize_stage) == (
        Status.COMPLETED,
        MoneyState.SETTLED,
        Stage.COMMITTED,
    )
    assert found.actual_cost_usd_micros == COST
    assert work.stored_envelope(found)["status"] == "COMPLETED"
    charged_once(run, tenant, COST)


def charged_once(run: Run, tenant: Tenant, micros: int) -> None:
    assert recovery.charges(run) == [-micros]
    assert recovery.held_micros(tenant) == {}
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS - micros
    recovery.law_holds(tenant)


# Postgres.


@every_mode
@pytest.mark.parametrize("step", ["start", "claim_worked", "commit"])
def test_dpp_39_postgres_away_for_a_while_is_waited_for(
    step: str, mode: Mode, tenant: Tenant, postgres: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant)
    with away_from(postgres, mode, transitions, step, monkeypatch, seconds=SHORT_SECONDS):
        assert work.execute(run) is End.COMMITTED
    completed(run, tenant)


def test_dpp_39_postgres_that_stays_away_before_the_start_leaves_the_message_to_come_again(
    tenant: Tenant, postgres: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant)
    little_patience(monkeypatch)
    with (
        away_from(postgres, Mode.REFUSE, transitions, "start", monkeypatch, seconds=None),
        pytest.raises(DATABASE_AWAY),
    ):
        work.execute(run)
    _reconnect()
    assert gear.row(run.run_id).status == Status.QUEUED
    assert work.execute(run) is End.COMMITTED
    completed(run, tenant)


def test_dpp_39_postgres_that_stays_away_at_the_claim_leaves_the_run_to_the_reaper(
    tenant: Tenant, postgres: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant)
    little_patience(monkeypatch)
    with away_from(postgres, Mode.REFUSE, transitions, "claim_worked", monkeypatch, seconds=None):
        assert work.execute(run) is End.UNCLAIMED
    _reconnect()
    gear.aged(run, lease_expires_at=1)
    recovery.run_loop(lease_reaper.reap_leases)
    found = gear.row(run.run_id)
    assert (found.status, found.last_error_reason_code) == (Status.FAILED, ReasonCode.WORKER_TIMEOUT)
    charged_once(run, tenant, FEE)


def test_dpp_39_postgres_that_stays_away_at_the_commit_leaves_the_claim_to_the_reconciler(
    tenant: Tenant, postgres: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant)
    little_patience(monkeypatch)
    with away_from(postgres, Mode.REFUSE, transitions, "commit", monkeypatch, seconds=None):
        assert work.execute(run) is End.WAITING
    _reconnect()
    assert gear.row(run.run_id).finalize_stage == Stage.CLAIMED
    gear.aged(run, finalize_claimed_at=301)
    recovery.run_loop(claim_reconciler.reconcile_claims)
    completed(run, tenant)


@pytest.mark.parametrize("step", ["start", "claim_worked", "commit"])
def test_dpp_39_an_answer_of_postgres_that_got_lost_is_looked_up(
    step: str, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edge was won, and its worker was told of a broken connection."""
    run = work.queued(tenant)
    does: Callable[..., Won | Lost] = getattr(transitions, step)
    calls: list[Won | Lost] = []

    def loses_the_first_answer(**values: Any) -> Won | Lost:
        calls.append(does(**values))
        if len(calls) == 1:
            raise OperationalError("the connection is lost")
        return calls[-1]

    monkeypatch.setattr(transitions, step, loses_the_first_answer)
    assert work.execute(run) is End.COMMITTED
    assert isinstance(calls[0], Won)
    completed(run, tenant)
    assert [version for version, *_ in gear.timeline(run.run_id)] == [0, 1, 2, 3, 4]


# Redis.


@every_mode
@pytest.mark.parametrize(("where", "step"), [(leases, "take_run_lease"), (services, "settle")])
def test_dpp_39_redis_away_for_a_while_is_waited_for(
    where: Any, step: str, mode: Mode, tenant: Tenant, money: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant)
    with away_from(money, mode, where, step, monkeypatch, seconds=SHORT_SECONDS):
        assert work.execute(run) is End.COMMITTED
    completed(run, tenant)


def test_dpp_39_redis_that_stays_away_leaves_the_claim_to_the_reconciler(
    tenant: Tenant, money: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant)
    little_patience(monkeypatch)
    with away_from(money, Mode.REFUSE, services, "settle", monkeypatch, seconds=None):
        assert work.execute(run) is End.WAITING
    found = gear.row(run.run_id)
    assert (found.finalize_stage, found.intent_charge_usd_micros) == (Stage.CLAIMED, COST)
    assert recovery.charges(run) == []
    gear.aged(run, finalize_claimed_at=301)
    recovery.run_loop(claim_reconciler.reconcile_claims)
    completed(run, tenant)


def test_dpp_39_a_settle_whose_answer_got_lost_is_asked_again_and_takes_once(
    tenant: Tenant, money: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant)
    settle = services.settle
    cut: list[bool] = []

    def cut_before_the_answer(**values: Any) -> Any:
        if not cut:
            cut.append(True)
            money.cut_after(0)
            outcome = settle(**values)
            money.cut_after(None)
            return outcome
        return settle(**values)

    monkeypatch.setattr(services, "settle", cut_before_the_answer)
    assert work.execute(run) is End.COMMITTED
    completed(run, tenant)


@pytest.mark.parametrize("closed", ["for a while", "for good"])
def test_dpp_39_money_closed_at_the_settle_is_waited_for(
    closed: str, tenant: Tenant, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens before the second attempt, or after its worker's patience: then the reconciler has the claim."""
    run, settle, attempts = work.queued(tenant), services.settle, []

    def closed_at_first(**values: Any) -> Any:
        attempts.append(values)
        if len(attempts) == 1:
            scripts.shared_scripts().gate.close(valkey)
        elif len(attempts) == 2 and closed == "for a while":
            rebuild.rebuild_all()
        return settle(**values)

    if closed == "for good":
        little_patience(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(services, "settle", closed_at_first)
        assert work.execute(run) is (End.WAITING if closed == "for good" else End.COMMITTED)
    assert len(attempts) > 1
    if closed == "for good":
        assert gear.row(run.run_id).finalize_stage == Stage.CLAIMED
        rebuild.rebuild_all()
        gear.aged(run, finalize_claimed_at=301)
        recovery.run_loop(claim_reconciler.reconcile_claims)
    completed(run, tenant)


def hold_is_lost(run: Run, _money: Proxy, redis_itself: Redis) -> None:
    """Its finisher rebuilds the tenant, and takes its claim back from the fence."""
    redis_itself.delete(keys.holds_key(run.tenant_id), keys.reserve_key(str(run.run_id)))


def redis_goes(_run: Run, money: Proxy, _redis: Redis) -> None:
    money.set(Mode.REFUSE)


def redis_is_back(_run: Run, money: Proxy, _redis: Redis) -> None:
    money.set(Mode.PASS)


def redis_is_back_and_was_rebuilt(_run: Run, money: Proxy, _redis: Redis) -> None:
    money.set(Mode.PASS)
    rebuild.rebuild_all()


@pytest.mark.contract("DPP-34", "DPP-55")
@pytest.mark.parametrize(
    "meanwhile",
    [
        [redis_goes, redis_is_back_and_was_rebuilt],
        [hold_is_lost, redis_goes, redis_is_back],
        [hold_is_lost, redis_goes, redis_is_back_and_was_rebuilt],
    ],
    ids=lambda happens: " then ".join(each.__name__ for each in happens),
)
def test_dpp_34_a_worker_keeps_its_claim_through_a_rebuild_and_an_outage(
    meanwhile: list[Callable[[Run, Proxy, Redis], None]],
    tenant: Tenant,
    money: Proxy,
    valkey: Redis,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Before each of its settles something happens; it ends the run by itself all the same, at once."""
    run, settle, coming = work.queued(tenant), services.settle, list(meanwhile)

    def something_happens_first(**values: Any) -> Any:
        if coming:
            coming.pop(0)(run, money, valkey)
        return settle(**values)

    monkeypatch.setattr(services, "settle", something_happens_first)
    assert work.execute(run) is End.COMMITTED
    assert coming == []
    completed(run, tenant)
    said: list[Any] = [record.msg for record in caplog.records if record.name == "dpp.run"]
    (ended,) = [line for line in said if line["event"] == "run ended"]
    assert ended["version_after"] == gear.row(run.run_id).version > run.version + 3


@pytest.mark.contract("DPP-34", "DPP-55")
def test_dpp_34_a_claim_taken_back_is_kept_when_the_answer_to_it_gets_lost(
    tenant: Tenant, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, retake, answers = work.queued(tenant), transitions.retake, [OperationalError("the connection is lost")]
    claim = transitions.claim_worked

    def and_the_hold_is_lost(**values: Any) -> Won | Lost:
        outcome = claim(**values)
        valkey.delete(keys.holds_key(tenant.tenant_id), keys.reserve_key(str(run.run_id)))
        return outcome

    def loses_the_first_answer(**values: Any) -> Won | Lost:
        outcome = retake(**values)
        if answers:
            raise answers.pop()
        return outcome

    monkeypatch.setattr(transitions, "claim_worked", and_the_hold_is_lost)
    monkeypatch.setattr(transitions, "retake", loses_the_first_answer)
    assert work.execute(run) is End.COMMITTED
    assert answers == []
    completed(run, tenant)


@pytest.mark.contract("DPP-34", "DPP-55", "HRD-02")
def test_dpp_55_a_claim_that_its_worker_read_after_a_fence_is_fenced_again(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer got lost beside a rebuild, so its worker looked it up; another rebuild meets its next commit."""
    run, claim, settle = work.queued(tenant), transitions.claim_worked, services.settle
    answers: list[Won | Lost] = []
    rebuilt: list[Any] = []

    def loses_the_first_answer(**values: Any) -> Won | Lost:
        answers.append(claim(**values))
        if len(answers) == 1:
            rebuild.rebuild_all()
            raise OperationalError("the connection is lost")
        return answers[-1]

    def and_a_rebuild_comes(**values: Any) -> Any:
        outcome = settle(**values)
        if not rebuilt:
            rebuilt.append(rebuild.rebuild_all())
        return outcome

    monkeypatch.setattr(transitions, "claim_worked", loses_the_first_answer)
    monkeypatch.setattr(services, "settle", and_a_rebuild_comes)
    assert work.execute(run) is End.COMMITTED
    assert rebuilt
    completed(run, tenant)


# The bucket.


@every_mode
def test_dpp_39_a_bucket_away_for_a_while_is_waited_for(
    mode: Mode, tenant: Tenant, s3: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant)
    with away_from(s3, mode, storage.RunStorage, "put", monkeypatch, seconds=SHORT_SECONDS):
        assert work.execute(run) is End.COMMITTED
    completed(run, tenant)


@pytest.mark.parametrize(("fails", "reason"), [(False, ReasonCode.RESULT_LOST), (True, ReasonCode.PACK_FAILED)])
def test_dpp_39_a_bucket_that_stays_away_costs_the_minimum_fee(
    *, fails: bool, reason: ReasonCode, tenant: Tenant, s3: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant, fail=fails)
    little_patience(monkeypatch)
    with away_from(s3, Mode.REFUSE, storage.RunStorage, "put", monkeypatch, seconds=None):
        assert work.execute(run) is End.COMMITTED
    found = gear.row(run.run_id)
    assert (found.status, found.last_error_reason_code, found.result_key) == (Status.FAILED, reason, None)
    charged_once(run, tenant, FEE)


def test_dpp_31_a_lease_lost_while_the_bucket_is_away_ends_the_waiting(
    tenant: Tenant, s3: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.queued(tenant)
    put = storage.RunStorage.put

    def and_the_owner_cancels(*args: Any, **values: Any) -> str:
        if gear.row(run.run_id).finalize_stage is None:
            gear.won(
                transitions.claim_canceled(
                    run=gear.row(run.run_id),
                    intent=gear.fee(ReasonCode.CANCELED_BY_OWNER),
                    actor="tenant",
                )
            )
            redis.redis_client().delete(lease_key(run.run_id))
        return put(*args, **values)

    monkeypatch.setattr(storage.RunStorage, "put", and_the_owner_cancels)
    s3.set(Mode.REFUSE)
    assert work.execute(run) is End.STOPPED
    s3.set(Mode.PASS)
    found = gear.row(run.run_id)
    assert (found.last_actor, found.result_key) == ("tenant", None)
    assert work.objects(run) == []
    assert work.receipt(run) == {}
