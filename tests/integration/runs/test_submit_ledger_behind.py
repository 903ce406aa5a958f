"""A key whose run Postgres has lost is not sold again, also where Redis was away as Postgres came back (HRD-06)."""

from typing import Any

import pytest
import redis
from django.db import connection, connections, transaction

from budget.rebuild.gate_watch import watch_gates
from budget.redis import keys
from tests.gear.builders.recovery import redis_through_proxy
from tests.gear.builders.shop import Shop, a_request_key
from tests.gear.faults.proxy import Mode

pytestmark = pytest.mark.contract("HRD-06")


def lose_run(run_id: str) -> None:
    """As a replica that lagged lost it, with all that hangs on it."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = 'replica'")
        for table in ("run_turns", "run_inputs", "run_history", "runs"):
            cursor.execute(f"DELETE FROM {table} WHERE run_id = %s", [run_id])  # noqa: S608  our own tables


def reconnect() -> None:
    pool: Any = connections["default"]
    pool.close()
    pool.close_pool()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def test_hrd_06_a_lost_runs_key_is_refused_before_the_watch_has_looked(
    shop: Shop, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with redis_through_proxy(monkeypatch) as proxy:
        key = a_request_key()
        first = shop.submit(key=key)
        assert first.status_code == 202
        lose_run(first.json()["run_id"])
        valkey.set(keys.POSTGRES, "another")
        held = shop.holds()
        with proxy.outage(Mode.REFUSE):
            reconnect()
        again = shop.submit(key=key)
        assert (again.status_code, again.json()["reason_code"]) == (503, "BUDGET_UNAVAILABLE")
        assert shop.holds() == held
        assert watch_gates(limit=10).failed == 1
