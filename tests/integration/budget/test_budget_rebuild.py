"""Money made again from Postgres, against a real Redis that forgets, restarts and comes back older (DPP-55)."""

import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from django.db import OperationalError, connection, transaction

from budget import entries, services
from budget.entries import Entered
from budget.models import PendingCredit
from budget.outcomes import AlreadyHeld, AskAgain, Closed, Held, Refunded, Settled, Unavailable
from budget.rebuild import lease, plan, rebuild
from budget.rebuild.gate_watch import watch_gates
from budget.rebuild.rebuild import Busy, Rebuilt
from budget.redis import connection as money_connection
from budget.redis import keys, scripts
from budget.services import Available
from budget.verification import verify
from budget.verification.verify import Verdict
from dpp_project.devstack import valkey as devstack_valkey
from dpp_project.stores.postgres import ANSWER_SECONDS
from tests.gear.builders.money import standing_balance
from tests.gear.builders.open_runs import RunsTable, runs_table
from tests.gear.builders.tenants import a_tenant
from tests.gear.faults.rebuilders import another_at_work, in_another_session, taken_for_dead
from tests.gear.waiting import wait_until

__all__ = ["runs_table"]
pytestmark = pytest.mark.contract("DPP-55")


@pytest.fixture
def runs(runs_table: RunsTable, valkey: redis.Redis) -> RunsTable:
    rebuild.rebuild_all()
    return runs_table


def funded(micros: int = 1_000_000) -> str:
    tenant_id = a_tenant().tenant_id
    made = entries.top_up(tenant_id=tenant_id, amount_micros=micros, reference="first", reason="", actor="test")
    assert isinstance(made, Entered)
    assert made.balance_micros == micros
    return tenant_id


def hold(tenant_id: str, run_id: str, micros: int = 250_000) -> object:
    return services.hold(tenant_id=tenant_id, run_id=run_id, reserved_micros=micros, created_at_ms=1)


def held_run(runs: RunsTable, tenant_id: str, micros: int = 250_000) -> str:
    run_id = runs.accept(tenant_id, micros)
    assert isinstance(hold(tenant_id, run_id, micros), Held)
    assert runs.mark_reserved(run_id)
    return run_id


def settled_run(runs: RunsTable, tenant_id: str, charge: int = 50_000) -> str:
    run_id = held_run(runs, tenant_id)
    claimed = runs.claim(run_id)
    assert claimed is not None
    outcome = services.settle(tenant_id=tenant_id, run_id=run_id, charge_micros=charge)
    assert isinstance(outcome, Settled)
    assert runs.commit(claimed, taken_micros=outcome.charge_micros)
    return run_id


def test_dpp_55_a_flush_closes_money_and_the_watch_opens_it(runs: RunsTable, valkey: redis.Redis) -> None:
    tenant_id, other = funded(), funded(7)
    run_id = held_run(runs, tenant_id)
    settled_run(runs, tenant_id)
    valkey.flushall()
    late = runs.accept(tenant_id, 1)
    assert hold(tenant_id, late, 1) == Unavailable(Closed.EPOCH)
    assert services.settle(tenant_id=tenant_id, run_id=run_id, charge_micros=1) == Unavailable(Closed.EPOCH)
    assert services.refund(tenant_id=tenant_id, run_id=run_id) == Unavailable(Closed.EPOCH)
    assert services.balance(tenant_id=tenant_id) == Unavailable(Closed.EPOCH)
    assert valkey.keys() == []

    seen = watch_gates(limit=10)

    assert (seen.found, seen.rebuilt, seen.failed) == (1, 1, 0)
    assert standing_balance(tenant_id) == 1_000_000 - 250_000 - 50_000
    assert standing_balance(other) == 7
    assert valkey.hgetall(keys.holds_key(tenant_id)) == {run_id: "250000"}
    assert hold(tenant_id, run_id) == AlreadyHeld(250_000)


@pytest.mark.contract("HRD-03")
def test_hrd_03_receipts_come_back_as_long_as_a_finisher_may_ask(runs: RunsTable, valkey: redis.Redis) -> None:
    tenant_id = funded()
    run_id, older = settled_run(runs, tenant_id), settled_run(runs, tenant_id, charge=0)
    with connection.cursor() as cursor:
        past = keys.RECEIPT_REBUILT_SECONDS + 1
        cursor.execute(
            "UPDATE money_test_runs SET ended_at = ended_at - make_interval(secs => %s) WHERE run_id = %s",
            [past, older],
        )
    valkey.flushall()
    rebuild.rebuild_all()
    again = services.settle(tenant_id=tenant_id, run_id=run_id, charge_micros=250_000)
    assert again == Settled(50_000, 200_000, 950_000, again=True)
    assert standing_balance(tenant_id) == 950_000
    assert not valkey.exists(keys.receipt_key(older))


@pytest.mark.contract("HRD-03")
@pytest.mark.parametrize("ask", ["settle", "refund"])
def test_hrd_03_who_asks_later_than_a_receipt_lives_moves_nothing(
    runs: RunsTable, valkey: redis.Redis, ask: str
) -> None:
    """A finisher that slept an hour: its run was ended by another, and Redis was emptied since."""
    tenant_id = funded()
    run_id = settled_run(runs, tenant_id)
    valkey.flushall()
    rebuild.rebuild_all()
    valkey.delete(keys.receipt_key(run_id))
    asked, _ = ASKED[ask]
    answer = asked(tenant_id, run_id)
    if ask == "settle":
        assert answer == AskAgain(), "it reads the row again, and finds it ended"
    else:
        assert answer == Refunded(0, 950_000, 0, again=False, tombstone=True)
    assert standing_balance(tenant_id) == 950_000
    assert verify.verify_tenant_money(tenant_id).verdict is Verdict.PROVED


def test_dpp_55_one_tenants_lost_balance_is_rebuilt_alone(runs: RunsTable, valkey: redis.Redis) -> None:
    tenant_id, other = funded(), funded(7)
    earlier = held_run(runs, tenant_id)
    epoch = valkey.get(keys.EPOCH)
    valkey.delete(keys.balance_key(tenant_id))
    run_id = runs.accept(tenant_id, 1)
    assert hold(tenant_id, run_id, 1) == AskAgain()
    assert valkey.hgetall(keys.holds_key(tenant_id)).keys() == {earlier}
    assert standing_balance(tenant_id) == 750_000
    assert not runs.mark_reserved(run_id), "the rebuild has fenced the row whose hold it refused"
    assert hold(tenant_id, run_id, 1) == Held(749_999)
    assert valkey.get(keys.EPOCH) == epoch
    assert standing_balance(other) == 7


def test_the_watch_finds_a_lost_balance_by_itself(runs: RunsTable, valkey: redis.Redis) -> None:
    tenant_id = funded()
    valkey.delete(keys.balance_key(tenant_id))
    fresh = a_tenant().tenant_id
    assert set(watch_gates(limit=10).tenants) >= {tenant_id, fresh}
    assert standing_balance(tenant_id) == 1_000_000
    assert standing_balance(fresh) == 0
    assert watch_gates(limit=10).found == 0


def test_the_watch_opens_what_a_dead_rebuild_left_closed(runs: RunsTable, valkey: redis.Redis) -> None:
    tenant_id = funded()
    valkey.set(keys.gate_key(tenant_id), "closed.by-a-rebuild-that-died")
    assert services.balance(tenant_id=tenant_id) == Unavailable(Closed.GATE)
    assert watch_gates(limit=10).tenants == [tenant_id]
    assert standing_balance(tenant_id) == 1_000_000


def holds_are_lost(valkey: redis.Redis, tenant_id: str) -> None:
    valkey.delete(keys.holds_key(tenant_id))


def balance_is_lost(valkey: redis.Redis, tenant_id: str) -> None:
    valkey.delete(keys.balance_key(tenant_id))


ASKED: Final[dict[str, tuple[Callable[[str, str], object], object]]] = {
    "hold": (hold, AlreadyHeld(250_000)),
    "settle": (
        lambda tenant_id, run_id: services.settle(tenant_id=tenant_id, run_id=run_id, charge_micros=1),
        Settled(1, 249_999, 999_999, again=False),
    ),
    "refund": (
        lambda tenant_id, run_id: services.refund(tenant_id=tenant_id, run_id=run_id),
        Refunded(250_000, 1_000_000, 0, again=False, tombstone=False),
    ),
}


@pytest.mark.parametrize("lose", [holds_are_lost, balance_is_lost], ids=lambda lose: lose.__name__)
@pytest.mark.parametrize("asked", ASKED)
def test_dpp_55_lost_money_is_rebuilt_and_the_caller_asks_again(
    asked: str, lose: Callable[[redis.Redis, str], None], runs: RunsTable, valkey: redis.Redis
) -> None:
    ask, answer = ASKED[asked]
    tenant_id = funded()
    run_id = held_run(runs, tenant_id)
    lose(valkey, tenant_id)
    assert ask(tenant_id, run_id) == AskAgain()
    assert (standing_balance(tenant_id), valkey.hgetall(keys.holds_key(tenant_id))) == (750_000, {run_id: "250000"})
    assert ask(tenant_id, run_id) == answer


@pytest.mark.parametrize("lose", [holds_are_lost, balance_is_lost], ids=lambda lose: lose.__name__)
@pytest.mark.parametrize("asked", ASKED)
def test_dpp_55_lost_money_that_cannot_be_rebuilt_now_is_unavailable(
    asked: str, lose: Callable[[redis.Redis, str], None], runs: RunsTable, valkey: redis.Redis
) -> None:
    """Another rebuild is at work: nothing is moved, written or fenced beside it."""
    ask, _ = ASKED[asked]
    tenant_id = funded()
    run_id = held_run(runs, tenant_id)
    lose(valkey, tenant_id)
    names = [keys.balance_key(tenant_id), keys.seq_key(tenant_id), keys.receipt_key(run_id), keys.gate_key(tenant_id)]
    before = (valkey.mget(names), valkey.hgetall(keys.holds_key(tenant_id)))
    with another_at_work():
        assert ask(tenant_id, run_id) == Unavailable(Closed.BALANCE)
    assert (valkey.mget(names), valkey.hgetall(keys.holds_key(tenant_id))) == before
    assert ask(tenant_id, run_id) == AskAgain()


def test_dpp_55_a_lost_balance_is_rebuilt_before_it_is_shown(runs: RunsTable, valkey: redis.Redis) -> None:
    tenant_id = funded()
    held_run(runs, tenant_id)
    balance_is_lost(valkey, tenant_id)
    with another_at_work():
        assert services.balance(tenant_id=tenant_id) == Unavailable(Closed.BALANCE)
    assert services.balance(tenant_id=tenant_id) == Available(750_000)


def test_dpp_55_a_finisher_that_a_rebuild_overtook_commits_nothing(runs: RunsTable, valkey: redis.Redis) -> None:
    tenant_id = funded()
    run_id = held_run(runs, tenant_id)
    claimed = runs.claim(run_id)
    assert claimed is not None
    services.settle(tenant_id=tenant_id, run_id=run_id, charge_micros=50_000)
    rebuild.rebuild_all()
    assert not runs.commit(claimed, taken_micros=50_000)
    assert standing_balance(tenant_id) == 750_000
    retaken = runs.claim(run_id)
    assert retaken is not None
    assert services.settle(tenant_id=tenant_id, run_id=run_id, charge_micros=50_000) == Settled(
        50_000, 200_000, 950_000, again=False
    )
    assert runs.commit(retaken, taken_micros=50_000)


def test_one_rebuild_at_a_time(runs: RunsTable) -> None:
    """Another has the lease; the second rebuild changes nothing."""
    epoch = scripts.shared_scripts().gate.renewed()
    with another_at_work():
        assert rebuild.rebuild_all() == Busy()
        assert rebuild.rebuild_tenant("t_any") == Busy()
        assert scripts.shared_scripts().gate.renewed() == epoch
    assert isinstance(rebuild.rebuild_all(), Rebuilt)


@pytest.mark.parametrize("whole", [True, False])
def test_dpp_55_a_flush_while_it_is_written_starts_the_rebuild_again(
    runs: RunsTable, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    tenant_id = funded()
    held_run(runs, tenant_id)
    snapshots = after_the_first_snapshot(monkeypatch, valkey.flushall)
    if not whole:  # the flush has emptied the epoch as well: this waits for a rebuild of all
        assert rebuild.rebuild_tenant(tenant_id) == Busy()
        assert services.balance(tenant_id=tenant_id) == Unavailable(Closed.EPOCH)
    assert isinstance(rebuild.rebuild_all(), Rebuilt)
    assert len(snapshots) == 2
    assert standing_balance(tenant_id) == 750_000


def test_dpp_55_a_rebuild_that_dies_leaves_money_closed(
    runs: RunsTable, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant_id = funded()

    def die(*_args: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(rebuild, "fence_open_runs", die)
        with pytest.raises(RuntimeError):
            rebuild.rebuild_all()
    assert services.balance(tenant_id=tenant_id) == Unavailable(Closed.EPOCH)
    watch_gates(limit=10)
    assert standing_balance(tenant_id) == 1_000_000


def test_a_run_that_ends_before_its_fence_is_in_the_snapshot(runs: RunsTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was settled before the gate was closed, and commits behind it: its charge is counted, not its hold."""
    tenant_id = funded()
    run_id = held_run(runs, tenant_id)
    claimed = runs.claim(run_id)
    assert claimed is not None
    services.settle(tenant_id=tenant_id, run_id=run_id, charge_micros=50_000)
    real = runs.fence

    def rival_first(*, tenant_id: str | None) -> Iterator[int]:
        in_another_session(lambda: runs.commit(claimed, taken_micros=50_000))
        return real(tenant_id=tenant_id)

    monkeypatch.setattr(runs, "fence", rival_first)
    rebuild.rebuild_all()
    assert standing_balance(tenant_id) == 950_000


def after_the_first_snapshot(monkeypatch: pytest.MonkeyPatch, rival: Callable[[], object]) -> list[str | None]:
    """`rival` acts when the first view is taken, and nothing of it is written yet. The tenants of each view."""
    snapshots: list[str | None] = []
    real = rebuild._counted_rebuild_balances

    def then_the_rival(which: str | None) -> Any:
        counted = real(which)
        snapshots.append(which)
        if len(snapshots) == 1:
            rival()
        return counted

    monkeypatch.setattr(rebuild, "_counted_rebuild_balances", then_the_rival)
    return snapshots


@pytest.fixture
def own_valkey(tmp_path: Path, settings: Any) -> Iterator["OwnValkey"]:
    own = OwnValkey(tmp_path)
    settings.REDIS_URL = own.url
    scripts.forget_scripts()
    yield own
    scripts.forget_scripts()
    own.kill()


OPTIONS = {"appendonly": "no"}  # so that the dump is what it starts from


class OwnValkey:
    """A server that may be killed, restarted, and given back an older dump."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server, self._process = devstack_valkey.start_valkey(folder, options=OPTIONS)
        self.url = self._server.url
        self.client = redis.Redis.from_url(self.url, decode_responses=True)

    def save(self) -> None:
        self.client.save()
        shutil.copy(self.folder / "dump.rdb", self.folder / "older.rdb")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.client.connection_pool.disconnect()

    def start_from(self, dump: str) -> None:
        self.kill()
        if dump != "dump.rdb":
            shutil.copy(self.folder / dump, self.folder / "dump.rdb")
        self._server, self._process = devstack_valkey.start_valkey(self.folder, port=self._server.port, options=OPTIONS)


def test_dpp_55_a_restart_with_everything_still_closes_money(runs_table: RunsTable, own_valkey: OwnValkey) -> None:
    """Nothing may be lost, but nobody can know: the epoch names the server that is gone."""
    rebuild.rebuild_all()
    tenant_id = funded()
    own_valkey.save()
    own_valkey.start_from("older.rdb")
    run_id = runs_table.accept(tenant_id, 1)
    assert hold(tenant_id, run_id, 1) in {Unavailable(Closed.REDIS), Unavailable(Closed.EPOCH)}
    assert hold(tenant_id, run_id, 1) == Unavailable(Closed.EPOCH)
    assert str(own_valkey.client.get(keys.EPOCH)).startswith("closed.")
    watch_gates(limit=10)
    assert standing_balance(tenant_id) == 1_000_000


def test_dpp_55_an_older_image_is_never_believed(runs_table: RunsTable, own_valkey: OwnValkey) -> None:
    rebuild.rebuild_all()
    tenant_id = funded()
    open_run = held_run(runs_table, tenant_id)
    own_valkey.save()
    settled = settled_run(runs_table, tenant_id, charge=250_000)
    entries.top_up(tenant_id=tenant_id, amount_micros=9, reference="second", reason="", actor="test")
    own_valkey.start_from("older.rdb")
    assert own_valkey.client.get(keys.balance_key(tenant_id)) == "750000", "the image itself is older"

    answers = {services.balance(tenant_id=tenant_id) for _ in range(3)}

    assert answers <= {Unavailable(Closed.REDIS), Unavailable(Closed.EPOCH)}
    watch_gates(limit=10)
    assert standing_balance(tenant_id) == 1_000_000 - 250_000 - 250_000 + 9
    assert own_valkey.client.hgetall(keys.holds_key(tenant_id)) == {open_run: "250000"}
    assert isinstance(services.settle(tenant_id=tenant_id, run_id=settled, charge_micros=1), Settled)
    assert standing_balance(tenant_id) == 500_009


def test_dpp_55_connections_that_stood_while_redis_was_away_do_not_pass_the_gate(
    runs_table: RunsTable,
    own_valkey: OwnValkey,
) -> None:
    """Every pooled connection is broken by the restart; each new one looks before its first command."""
    rebuild.rebuild_all()
    tenant_id = funded()
    threads = [threading.Thread(target=services.balance, kwargs={"tenant_id": tenant_id}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    own_valkey.save()
    own_valkey.start_from("older.rdb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            scripts.shared_scripts().gate, "renewed", lambda: pytest.fail("the known epoch should be refused first")
        )
        answers = []
        for _ in range(12):
            try:
                answers.append(services.balance(tenant_id=tenant_id))
            except pytest.fail.Exception:
                answers.append(Unavailable(Closed.EPOCH))
    assert set(answers) <= {Unavailable(Closed.REDIS), Unavailable(Closed.EPOCH)}


@pytest.mark.contract("HRD-01")
@pytest.mark.parametrize("session", ["lives", "is lost"])
def test_hrd_01_a_frozen_rebuild_that_wakes_up_writes_no_older_snapshot(
    runs: RunsTable, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch, session: str
) -> None:
    """Behind its snapshot its lease runs out, another rebuilds all, and money moves. Then it goes on."""
    tenant_id = funded()
    held_run(runs, tenant_id)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (mine,) = cursor.fetchone()
    found: list[Any] = []

    def meanwhile() -> bool:
        found.append(rebuild.rebuild_all())
        found.append(held_run(runs, tenant_id))
        entries.top_up(tenant_id=tenant_id, amount_micros=5, reference="meanwhile", reason="", actor="test")
        if session == "is lost":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [mine])
        return True

    def freeze() -> None:
        taken_for_dead()
        in_another_session(meanwhile)

    after_the_first_snapshot(monkeypatch, freeze)
    if session == "is lost":
        with pytest.raises(OperationalError):
            rebuild.rebuild_all()
        connection.close()
    else:
        assert rebuild.rebuild_all() == Busy(), "what it was to do is done"
    assert isinstance(found[0], Rebuilt)
    assert standing_balance(tenant_id) == 500_005
    assert verify.verify_tenant_money(tenant_id).verdict is Verdict.PROVED
    assert isinstance(rebuild.rebuild_tenant(tenant_id), Rebuilt), "the lease is free"


@pytest.mark.contract("HRD-01")
def test_hrd_01_a_frozen_rebuild_that_wakes_up_beside_another_leaves_the_gate_to_it(
    runs: RunsTable, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other is still at work: its lease and its closed gate stay, and what the first had written is void."""
    tenant_id = funded()
    others: list[str] = []

    def another_closes() -> None:
        taken_for_dead()
        valkey.set(keys.REBUILD, "another's")
        others.append(scripts.shared_scripts().gate.close(valkey))

    after_the_first_snapshot(monkeypatch, another_closes)
    assert rebuild.rebuild_all() == Busy()
    assert valkey.get(keys.EPOCH) == others[0]
    assert valkey.get(keys.REBUILD) == "another's"
    assert services.balance(tenant_id=tenant_id) == Unavailable(Closed.EPOCH)


@pytest.mark.contract("HRD-01")
def test_hrd_01_the_lease_of_a_rebuild_that_stopped_runs_out(runs: RunsTable, valkey: redis.Redis) -> None:
    """Its time is the server's own, and above what one statement of a living one may take."""
    with another_at_work():
        left_ms = valkey.pttl(keys.REBUILD)
        assert ANSWER_SECONDS * 1_000 < left_ms <= lease.LEASE_SECONDS * 1_000
        assert watch_gates(limit=10).rebuilt == 0
        valkey.pexpire(keys.REBUILD, 1)
        wait_until(lambda: not valkey.exists(keys.REBUILD), what="the end of the lease")
        assert isinstance(rebuild.rebuild_all(), Rebuilt)


@pytest.mark.contract("HRD-01")
def test_hrd_01_a_rebuild_that_gets_on_keeps_its_lease(
    runs: RunsTable, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each batch it fences and each that it writes."""
    tenant_id = funded()
    for _ in range(3):
        held_run(runs, tenant_id)
    monkeypatch.setattr(plan, "BATCH_ITEMS", 1)
    monkeypatch.setattr(rebuild, "BATCHES_AT_ONCE", 1)
    left: list[int] = []
    real_write, real_fence = scripts.Scripts.write, runs.fence

    def write(self: Any, **given: Any) -> Any:
        left.append(valkey.pttl(keys.REBUILD))
        valkey.pexpire(keys.REBUILD, 5_000)
        return real_write(self, **given)

    def fence(*, tenant_id: str | None) -> Iterator[int]:
        for _ in range(2):
            valkey.pexpire(keys.REBUILD, 5_000)
            yield from real_fence(tenant_id=tenant_id)
            left.append(valkey.pttl(keys.REBUILD))

    monkeypatch.setattr(scripts.Scripts, "write", write)
    monkeypatch.setattr(runs, "fence", fence)
    assert isinstance(rebuild.rebuild_tenant(tenant_id), Rebuilt)
    assert len(left) == 2 + 1 + 3 + 1, "two of the fence, the balance, three holds and the credit"
    assert min(left) > 20_000
    assert not valkey.exists(keys.REBUILD)


def test_dpp_55_a_tenants_rebuild_that_one_of_all_overtook_is_refused(
    runs: RunsTable, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took its snapshot; then all money was closed and opened, and money moved; it does not go back to before."""
    tenant_id = funded()
    others: list[str] = []

    def all_is_rebuilt() -> bool:
        assert isinstance(rebuild.rebuild_all(), Rebuilt)
        others.append(held_run(runs, tenant_id))
        return True

    def freeze() -> None:
        taken_for_dead()
        in_another_session(all_is_rebuilt)

    snapshots = after_the_first_snapshot(monkeypatch, freeze)
    assert isinstance(rebuild.rebuild_tenant(tenant_id), Rebuilt)
    assert snapshots == [tenant_id, None, tenant_id]
    assert valkey.hgetall(keys.holds_key(tenant_id)) == {others[0]: "250000"}
    assert standing_balance(tenant_id) == 750_000
    assert verify.verify_tenant_money(tenant_id).verdict is Verdict.PROVED


def test_dpp_57_pending_credits_are_counted_by_a_rebuild(runs: RunsTable, valkey: redis.Redis) -> None:
    tenant_id = funded()
    valkey.flushall()
    made = entries.top_up(tenant_id=tenant_id, amount_micros=5, reference="closed", reason="", actor="test")
    assert isinstance(made, Entered)
    assert made.balance_micros is None
    assert PendingCredit.objects.count() == 1
    rebuild.rebuild_all()
    assert standing_balance(tenant_id) == 1_000_005
    assert PendingCredit.objects.count() == 1, "its row goes when the replay has met its receipt"
    assert entries.replay_pending(limit=10, older_than=timedelta()).applied == 1
    assert PendingCredit.objects.count() == 0
    assert standing_balance(tenant_id) == 1_000_005


def test_preview_writes_nothing(runs: RunsTable, valkey: redis.Redis) -> None:
    tenant_id = funded()
    run_id = held_run(runs, tenant_id)
    valkey.flushall()
    assert rebuild.preview_rebuild(tenant_id) == Rebuilt(tenants=1, holds=1, balance_micros=750_000)
    assert valkey.keys() == []
    claimed = runs.claim(run_id)
    assert claimed is not None
    assert claimed.version == 2, "the preview has not fenced it"


def test_a_client_of_money_is_guarded(own_valkey: OwnValkey) -> None:
    own_valkey.client.set(keys.EPOCH, "b" * 40 + ".of-another-server")
    assert str(money_connection.budget_client().get(keys.EPOCH)).startswith("closed.")


def test_money_inside_a_transaction_is_refused(runs: RunsTable) -> None:
    tenant_id = funded()
    with pytest.raises(RuntimeError), transaction.atomic():
        entries.top_up(tenant_id=tenant_id, amount_micros=5, reference="x", reason="", actor="test")
    assert standing_balance(tenant_id) == 1_000_000
