"""What fails for one tenant in a rebuild of all leaves that tenant closed, and opens the others (DPP-55)."""

import io
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import redis
from django.core.management import call_command
from django.db import DataError, connection

from budget import entries, services
from budget.models import LedgerEntry, PendingCredit
from budget.money import MAX_MICROS
from budget.outcomes import Closed, Held, Settled, Unavailable
from budget.rebuild import rebuild, scopes
from budget.rebuild.gate_watch import watch_gates
from budget.rebuild.rebuild import RebuildFailed, Rebuilt
from budget.redis import keys, scripts
from budget.verification import verify
from budget.verification.verify import Verdict
from tests.gear.builders.money import standing_balance
from tests.gear.builders.open_runs import RunsTable, runs_table
from tests.gear.builders.shop import Shop, a_request_key, a_shop
from tests.gear.builders.tenants import a_tenant

__all__ = ["runs_table"]
pytestmark = pytest.mark.contract("DPP-55")

FUNDS = 1_000_000
HOLD = 250_000


@pytest.fixture
def runs(runs_table: RunsTable, valkey: redis.Redis) -> RunsTable:
    rebuild.rebuild_all()
    return runs_table


def funded() -> str:
    tenant_id = a_tenant().tenant_id
    entries.top_up(tenant_id=tenant_id, amount_micros=FUNDS, reference="first", reason="", actor="test")
    return tenant_id


def hold(tenant_id: str, run_id: str) -> object:
    return services.hold(tenant_id=tenant_id, run_id=run_id, reserved_micros=HOLD, created_at_ms=1)


def held_run(runs: RunsTable, tenant_id: str) -> str:
    run_id = runs.accept(tenant_id, HOLD)
    assert isinstance(hold(tenant_id, run_id), Held)
    assert runs.mark_reserved(run_id)
    return run_id


def settle(tenant_id: str, run_id: str) -> object:
    return services.settle(tenant_id=tenant_id, run_id=run_id, charge_micros=50_000)


Undo = Callable[[], object]
Break = Callable[[str, redis.Redis, pytest.MonkeyPatch], Undo]


def enter(tenant_id: str, kind: str, micros: int) -> None:
    LedgerEntry.objects.create(
        tenant_id=tenant_id,
        kind=kind,
        amount_usd_micros=micros,
        reference=f"{kind} {micros}",
        reason="written by nothing of ours",
        actor="test",
    )


def a_script_refuses(tenant_id: str, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Undo:
    """Its entries come to more than a script counts exactly."""
    del valkey, monkeypatch
    enter(tenant_id, "TOPUP", MAX_MICROS)
    return lambda: enter(tenant_id, "ADJUST", -MAX_MICROS)


def a_statement_fails(tenant_id: str, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Undo:
    """As that for its date did, in a zone that Postgres did not know."""
    del valkey
    real, fails_for = scopes.scope_items, {None, tenant_id}

    def failing(which: str | None) -> Iterator[Any]:
        if which in fails_for:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 / 0")
        return real(which)

    monkeypatch.setattr(rebuild, "scope_items", failing)
    return fails_for.clear


def a_key_is_of_another_kind(tenant_id: str, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Undo:
    del monkeypatch
    valkey.delete(keys.seq_key(tenant_id))
    valkey.lpush(keys.seq_key(tenant_id), "written by nothing of ours")
    return lambda: valkey.delete(keys.seq_key(tenant_id))


BREAKS: Final[list[Break]] = [a_script_refuses, a_statement_fails, a_key_is_of_another_kind]


@pytest.mark.contract("DPP-57")
@pytest.mark.parametrize("break_", BREAKS, ids=lambda it: it.__name__)
@pytest.mark.parametrize("whole", [True, False], ids=["flushed", "an older image stands"])
def test_dpp_55_what_fails_for_one_tenant_keeps_no_others_money_closed(
    runs: RunsTable, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch, break_: Break, *, whole: bool
) -> None:
    """It is refused as long as that lasts, whatever stands of it in Redis, and nothing of it is lost."""
    some = sorted(funded() for _ in range(3))
    before, broken, behind = some
    held = {tenant_id: held_run(runs, tenant_id) for tenant_id in some}
    if whole:
        valkey.flushall()
    else:
        valkey.delete(keys.EPOCH)
    undo = break_(broken, valkey, monkeypatch)

    seen = watch_gates(limit=10)
    assert (seen.found, seen.rebuilt, seen.failed, seen.tenants) == (1, 1, 1, [broken])
    late = runs.accept(broken, HOLD)
    assert hold(broken, late) == Unavailable(Closed.GATE)
    again = watch_gates(limit=10)
    assert (again.found, again.rebuilt, again.failed, again.tenants) == (1, 0, 1, [broken])

    for tenant_id in (before, behind):
        assert standing_balance(tenant_id) == FUNDS - HOLD
        assert isinstance(hold(tenant_id, runs.accept(tenant_id, HOLD)), Held)
        claimed = runs.claim(held[tenant_id])
        assert claimed is not None
        assert isinstance(settle(tenant_id, held[tenant_id]), Settled)
        assert runs.commit(claimed, taken_micros=50_000)
    for asked in (hold(broken, late), settle(broken, held[broken]), services.balance(tenant_id=broken)):
        assert asked == Unavailable(Closed.GATE)
    assert services.refund(tenant_id=broken, run_id=late) == Unavailable(Closed.GATE)
    entered = entries.top_up(tenant_id=before, amount_micros=5, reference="now", reason="", actor="test")
    assert isinstance(entered, entries.Entered)
    assert entered.balance_micros == FUNDS - HOLD - 50_000 + 5
    assert verify.verify_tenant_money(broken).verdict is Verdict.UNSETTLED, "it is told as one that was not compared"

    undo()
    assert watch_gates(limit=10).rebuilt == 1
    assert watch_gates(limit=10).found == 0
    assert standing_balance(broken) == FUNDS - HOLD
    assert valkey.hgetall(keys.holds_key(broken)) == {held[broken]: str(HOLD)}
    assert isinstance(settle(broken, held[broken]), Settled)


def test_dpp_55_a_credit_that_was_left_behind_arrives_once(
    runs: RunsTable, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was entered before the rebuild that left its tenant closed, and comes to the balance under a later epoch."""
    broken, _ = funded(), funded()
    valkey.flushall()
    entries.top_up(tenant_id=broken, amount_micros=5, reference="closed", reason="", actor="test")
    undo = a_statement_fails(broken, valkey, monkeypatch)
    watch_gates(limit=10)
    (pending,) = PendingCredit.objects.select_related("entry")
    epoch = entries.open_epoch()
    assert epoch is not None
    assert entries.bring_to_balance(pending, epoch=epoch) is None
    undo()
    watch_gates(limit=10)
    assert standing_balance(broken) == FUNDS + 5
    assert entries.bring_to_balance(pending, epoch=epoch) == FUNDS + 5
    assert standing_balance(broken) == FUNDS + 5
    assert verify.verify_tenant_money(broken).verdict is Verdict.PROVED


def test_dpp_55_what_fails_for_every_tenant_is_no_tenants(
    runs: RunsTable, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All money stays closed, and opens whole."""
    some = [funded(), funded()]
    valkey.flushall()

    def failing(_which: str | None) -> Iterator[Any]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")
        return iter(())

    with monkeypatch.context() as patch:
        patch.setattr(rebuild, "scope_items", failing)
        with pytest.raises(DataError):
            rebuild.rebuild_all()
        seen = watch_gates(limit=10)
        assert (seen.found, seen.rebuilt, seen.failed) == (1, 0, 1)
    assert services.balance(tenant_id=some[0]) == Unavailable(Closed.EPOCH)
    assert watch_gates(limit=10).rebuilt == 1
    assert [standing_balance(tenant_id) for tenant_id in some] == [FUNDS, FUNDS]


def test_dpp_55_a_redis_that_is_away_leaves_no_tenant_closed_by_itself(
    runs: RunsTable, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that went away between two batches."""
    some = [funded(), funded()]
    valkey.flushall()

    def away(**_arguments: Any) -> Any:
        raise redis.ConnectionError("refused")

    with monkeypatch.context() as patch:
        patch.setattr(scripts.shared_scripts(), "write", away)
        with pytest.raises(redis.ConnectionError):
            rebuild.rebuild_all()
    assert valkey.keys("budget:*:gate") == []
    assert services.balance(tenant_id=some[0]) == Unavailable(Closed.EPOCH)
    made = rebuild.rebuild_all()
    assert isinstance(made, Rebuilt)
    assert (made.balance_micros, made.left_closed) == (2 * FUNDS, ())


def test_dpp_55_a_flush_between_two_tenants_starts_the_rebuild_again(
    runs: RunsTable, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, broken, behind = sorted(funded() for _ in range(3))
    a_script_refuses(broken, valkey, monkeypatch)
    views: list[str | None] = []
    real = rebuild._counted_rebuild_balances

    def counted(which: str | None) -> Any:
        views.append(which)
        if which == broken and views.count(broken) == 1:
            valkey.flushall()
        return real(which)

    monkeypatch.setattr(rebuild, "_counted_rebuild_balances", counted)
    made = rebuild.rebuild_all()
    assert isinstance(made, Rebuilt)
    assert (made.balance_micros, made.left_closed) == (2 * FUNDS, (broken,))
    assert views.count(None) == 2
    assert [standing_balance(tenant_id) for tenant_id in (before, behind)] == [FUNDS, FUNDS]
    assert services.balance(tenant_id=broken) == Unavailable(Closed.GATE)


def test_dpp_55_a_tenant_whose_own_rebuild_is_refused_is_closed_and_named(runs: RunsTable, valkey: redis.Redis) -> None:
    tenant_id, other = funded(), funded()
    enter(tenant_id, "TOPUP", MAX_MICROS)
    valkey.delete(keys.balance_key(tenant_id))
    with pytest.raises(RebuildFailed, match="ERR_ARGUMENT balance"):
        rebuild.rebuild_tenant(tenant_id)
    assert services.balance(tenant_id=tenant_id) == Unavailable(Closed.GATE)
    assert standing_balance(other) == FUNDS


@pytest.mark.contract("DPP-56")
def test_dpp_55_a_rebuild_by_hand_names_who_is_still_closed(runs: RunsTable, valkey: redis.Redis) -> None:
    broken = funded()
    funded()
    enter(broken, "TOPUP", MAX_MICROS)
    valkey.flushall()
    out = io.StringIO()
    with pytest.raises(SystemExit) as end:
        call_command("budget_rebuild", "--json", stdout=out)
    document = json.loads(out.getvalue())
    assert (end.value.code, document["outcome"], document["left_closed"]) == (75, "rebuilt", [broken])


def test_dpp_55_a_submit_of_a_tenant_left_closed_is_503_and_its_key_works_later(
    shop: Shop, valkey: redis.Redis
) -> None:
    other, key = a_shop(), a_request_key()
    stands = shop.submit()
    assert stands.status_code == 202
    enter(shop.tenant.pk, "TOPUP", MAX_MICROS)
    valkey.flushall()
    assert watch_gates(limit=10).tenants == [shop.tenant.pk]
    refused = shop.submit(key=key)
    assert (refused.status_code, refused.json()["reason_code"]) == (503, "BUDGET_UNAVAILABLE")
    assert other.submit().status_code == 202
    enter(shop.tenant.pk, "ADJUST", -MAX_MICROS)
    assert watch_gates(limit=10).rebuilt == 1
    assert shop.submit(key=key).status_code == 202
    assert stands.json()["run_id"] in shop.holds()
    assert len(shop.holds()) == 2
