"""What stands in Redis, read without mending it: asking the services would rebuild it. And money put there."""

from collections.abc import Mapping
from contextlib import closing

import redis

from budget.outcomes import Written
from budget.rebuild.plan import Credit, rebuild_batches, rebuild_items
from budget.redis import scripts, view
from budget.redis.connection import one_connection


def standing_balance(tenant_id: str) -> int:
    seen = view.look_at_balance(scripts.shared_scripts().client, tenant_id)
    assert seen.mark.is_open()
    assert seen.mark.gate is None
    assert seen.balance_micros is not None
    return seen.balance_micros


def open_money(*credited: Credit, without: list[str]) -> None:
    """All of it, closed until now, as a rebuild opens it that finds these entries, and tenants without any.

    What it would read is known here, so nothing is read.
    """
    money = scripts.shared_scripts()
    with closing(one_connection(money.client)) as client:
        token = money.gate.close(client)
        _write(client, token, dict.fromkeys(without, 0), *credited)
        assert money.gate.open(client, token) is not None
    tell(*credited)


def add_money(credited: Credit) -> None:
    """A tenant's first, while the money of all is open."""
    money = scripts.shared_scripts()
    with closing(one_connection(money.client)) as client:
        token = money.gate.close_tenant(client, credited.tenant_id)
        _write(client, token, {}, credited)
        assert money.gate.open_tenant(client, credited.tenant_id, token)
    tell(credited)


def _write(client: redis.Redis, token: str, others: Mapping[str, int], *credited: Credit) -> None:
    balances = {**others, **{each.tenant_id: each.amount_micros for each in credited}}
    items = rebuild_items(open_runs=(), ended_runs=(), credits_counted=credited)
    batches = list(rebuild_batches(balances, items))
    assert scripts.shared_scripts().write(client=client, token=token, batches=batches) == Written()


def tell(*credited: Credit) -> None:
    """Redis heard of these entries."""
    for each in credited:
        scripts.shared_scripts().tell(f"entry:{each.entry_id}")
