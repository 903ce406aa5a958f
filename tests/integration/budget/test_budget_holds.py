"""The door to money: what it costs, and what never gets through it (DPP-51, DPP-52)."""

from collections.abc import Callable
from typing import Any

import pytest
import redis
from django.core.checks import run_checks
from django.db import connection

from budget import entries, services
from budget.money import MAX_MICROS, AmountInvalid
from budget.outcomes import Closed, Held, Insufficient, Refunded, ScriptRefused, Settled, Unavailable
from budget.rebuild import rebuild
from budget.redis import keys, scripts
from dpp_project import constants
from tests.gear.builders.open_runs import RunsTable, runs_table
from tests.gear.builders.tenants import a_tenant

__all__ = ["runs_table"]


@pytest.fixture
def tenant_id(runs_table: RunsTable, valkey: redis.Redis) -> str:
    rebuild.rebuild_all()
    made = a_tenant().tenant_id
    entries.top_up(tenant_id=made, amount_micros=1_000_000, reference="first", reason="", actor="test")
    return made


def hold(tenant_id: str, micros: Any, run_id: str = "run") -> object:
    return services.hold(tenant_id=tenant_id, run_id=run_id, reserved_micros=micros, created_at_ms=1)


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every request this process sends to Redis."""
    sent: list[object] = []
    real = redis.connection.AbstractConnection.send_packed_command

    def send(self: Any, command: Any, *more: Any, **named: Any) -> Any:
        sent.append(command)
        return real(self, command, *more, **named)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(redis.connection.AbstractConnection, "send_packed_command", send)
    return sent


def costs(trips: list[object], ask: Callable[[], object]) -> int:
    trips.clear()
    ask()
    return len(trips)


@pytest.mark.contract("DPP-51")
def test_dpp_51_hold_settle_and_refund_cost_one_round_trip_each(tenant_id: str, trips: list[object]) -> None:
    hold(tenant_id, 1, "warm")
    services.settle(tenant_id=tenant_id, run_id="warm", charge_micros=1)
    services.refund(tenant_id=tenant_id, run_id="warm")
    assert costs(trips, lambda: hold(tenant_id, 5)) == 1
    assert costs(trips, lambda: services.settle(tenant_id=tenant_id, run_id="run", charge_micros=1)) == 1
    assert costs(trips, lambda: services.refund(tenant_id=tenant_id, run_id="run")) == 1
    assert costs(trips, lambda: services.balance(tenant_id=tenant_id)) == 1


@pytest.mark.contract("DPP-52")
@pytest.mark.parametrize("wrong", [0, -1, MAX_MICROS + 1, 1.0, "1", True, None], ids=repr)
def test_dpp_52_a_wrong_amount_is_refused_before_redis(
    tenant_id: str, valkey: redis.Redis, trips: list[object], wrong: Any
) -> None:
    before = {key: valkey.dump(key) for key in sorted(valkey.keys())}
    trips.clear()
    with pytest.raises(AmountInvalid):
        hold(tenant_id, wrong)
    if wrong != 0 or wrong is False:
        with pytest.raises(AmountInvalid):
            services.settle(tenant_id=tenant_id, run_id="run", charge_micros=wrong)
    assert trips == []
    assert {key: valkey.dump(key) for key in sorted(valkey.keys())} == before


@pytest.mark.contract("DPP-51")
def test_the_reserve_key_expires_and_the_hold_does_not(tenant_id: str, valkey: redis.Redis) -> None:
    assert hold(tenant_id, 250_000) == Held(750_000)
    assert 0 < int(str(valkey.ttl(keys.reserve_key("run")))) <= constants.RESERVATION_TTL_SECONDS
    valkey.delete(keys.reserve_key("run"))
    assert valkey.ttl(keys.holds_key(tenant_id)) == -1
    assert services.settle(tenant_id=tenant_id, run_id="run", charge_micros=7) == Settled(
        7, 249_993, 999_993, again=False
    )
    assert hold(tenant_id, 999_994, "another") == Insufficient(999_993)


def test_a_refund_without_a_hold_says_that_it_is_a_tombstone(tenant_id: str) -> None:
    refunded = services.refund(tenant_id=tenant_id, run_id="run")
    assert refunded == Refunded(0, 1_000_000, 0, again=False, tombstone=True)


def test_redis_away_is_an_answer(tenant_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_arguments: object, **_more: object) -> None:
        raise redis.ConnectionError("refused")

    monkeypatch.setattr(redis.connection.AbstractConnection, "send_packed_command", away)
    assert hold(tenant_id, 5) == Unavailable(Closed.REDIS)
    assert services.settle(tenant_id=tenant_id, run_id="run", charge_micros=5) == Unavailable(Closed.REDIS)
    assert services.refund(tenant_id=tenant_id, run_id="run") == Unavailable(Closed.REDIS)
    assert services.balance(tenant_id=tenant_id) == Unavailable(Closed.REDIS)


@pytest.mark.contract("DPP-52")
def test_another_tenants_run_is_a_bug_not_an_answer(tenant_id: str) -> None:
    other = a_tenant().tenant_id
    rebuild.rebuild_tenant(other)
    hold(tenant_id, 5)
    with pytest.raises(ScriptRefused):
        services.settle(tenant_id=other, run_id="run", charge_micros=1)
    assert services.settle(tenant_id=tenant_id, run_id="run", charge_micros=1) == Settled(1, 4, 999_999, again=False)


@pytest.mark.contract("DPP-51")
def test_dpp_51_a_script_the_server_forgot_is_loaded_again(tenant_id: str, valkey: redis.Redis) -> None:
    hold(tenant_id, 5)
    valkey.script_flush()
    assert hold(tenant_id, 6, "another") == Held(1_000_000 - 11)


def test_a_process_that_knows_an_old_epoch_learns_the_new_one(tenant_id: str, trips: list[object]) -> None:
    scripts.shared_scripts().gate._known = "a" * 40 + ".long-ago"
    assert hold(tenant_id, 5) == Held(999_995)
    assert costs(trips, lambda: hold(tenant_id, 5, "another")) == 1


@pytest.mark.contract("DPP-54")
def test_check_deploy_misses_a_ledger_without_its_trigger(runs_table: RunsTable) -> None:
    def said() -> str:
        return " ".join(str(message) for message in run_checks(include_deployment_checks=True, databases=["default"]))

    assert "ledger_entries_append_only" not in said()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE ledger_entries RENAME TO ledger_entries_away")
        try:
            assert "ledger_entries_append_only" in said()
        finally:
            cursor.execute("ALTER TABLE ledger_entries_away RENAME TO ledger_entries")
