"""Redis made again from Postgres: close, fence and snapshot, write, open.

What dies where:
    before `close`                 nothing happened
    after `close`                  money stays closed; the gate watch starts again from the beginning
    after `fence and snapshot`     as above; nothing but versions was changed
    in the middle of `write`       as above; what was written is behind the gate
    after `open`                   done
A flush or restart in between changes the epoch or the server, and `write` or `open` answer that they are superseded.

An advisory lock keeps a second rebuild from working in vain. Nothing rests on it, since it goes with its session: of
two that cross, `write` takes only the one that closed last, and its snapshot is the newer one. A tenant's counts only
while all money is open. Pending credits keep their rows: what was counted and written has its receipt, which the replay
meets; what was counted in vain is still on its way.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import redis
import structlog
from django.db import Error, OperationalError, connection, transaction
from django.db.models.functions import Now
from psycopg import errors

from budget import ledger, metrics, ports
from budget.models import LedgerEntry
from budget.outcomes import Superseded
from budget.rebuild.plan import Credit, TenantMoney, compose
from budget.redis import keys, scripts
from budget.redis.connection import one_connection
from budget.redis.gate import GateClosed
from dpp_project import clock
from dpp_project.stores import advisory_lock

log = structlog.get_logger("dpp.budget")

LOCK: Final = (0x6D6F6E79, 1)  # "mony"
ATTEMPTS: Final = 5
SNAPSHOT_ATTEMPTS: Final = 20
_SAFE_TO_REPEAT: Final = (errors.SerializationFailure, errors.DeadlockDetected)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    tenants: int
    holds: int
    balance_micros: int


@dataclass(frozen=True, slots=True)
class Busy:
    """Another rebuild has the lock, here or on another machine; or all money is closed, and one tenant was asked for.

    The end of that one, or of the rebuild of all that the gate watch begins within seconds, is this one's end too.
    """


class RebuildFailed(RuntimeError):  # noqa: N818  named for what happened
    """Superseded again and again: something empties or restarts Redis faster than it is rebuilt."""


def rebuild_all() -> Rebuilt | Busy:
    """Every tenant's money anew, under a new epoch.

    Raises RedisError, Django's database Error or RebuildFailed; money is closed then.
    """
    with advisory_lock.try_lock(LOCK) as first:
        if not first:
            return Busy()
        for _ in range(ATTEMPTS):
            if (rebuilt := _rebuild_all()) is not None:
                return rebuilt
        raise RebuildFailed(f"superseded {ATTEMPTS} times")


def rebuild_tenant(tenant_id: str) -> Rebuilt | Busy:
    """One tenant's money anew, behind its own gate; the others go on. Fails as `rebuild_all` does."""
    with advisory_lock.try_lock(LOCK) as first:
        if not first:
            return Busy()
        for _ in range(ATTEMPTS):
            if _all_is_closed():
                return Busy()
            if (rebuilt := _rebuild_tenant(tenant_id)) is not None:
                return rebuilt
        raise RebuildFailed(f"{tenant_id}: superseded {ATTEMPTS} times")


def mended(tenant_id: str) -> bool:
    """Rebuild a tenant on the way, where a balance or hold was found missing; what fails is left to the gate watch."""
    try:
        return isinstance(rebuild_tenant(tenant_id), Rebuilt)
    except (redis.RedisError, Error, RebuildFailed) as error:
        log.warning("tenant's money could not be rebuilt now", tenant_id=tenant_id, exc_info=error)
        return False


def preview(tenant_id: str | None) -> Rebuilt:
    """What a rebuild would write, without fencing or writing anything."""
    with transaction.atomic():
        return _summary(_composed(tenant_id))


def _all_is_closed() -> bool:
    try:
        scripts.shared().gate.renewed()
    except GateClosed:
        return True
    return False


def _rebuild_all() -> Rebuilt | None:
    money = scripts.shared()
    # One connection for all four steps: if the server goes away in between, the next step fails.
    with closing(one_connection(money.client)) as client:
        token = money.gate.close(client)
        log.warning("money closed for rebuilding")
        snapshot = fence_and_snapshot(None)
        if not all(_written(client, tenant, token) for tenant in snapshot):
            return None
        if (epoch := money.gate.open(client, token)) is None:
            return None
    rebuilt = _summary(snapshot)
    metrics.REBUILDS.labels("all").inc()
    log.warning("money rebuilt", epoch=epoch, tenants=rebuilt.tenants, holds=rebuilt.holds)
    return rebuilt


def _rebuild_tenant(tenant_id: str) -> Rebuilt | None:
    money = scripts.shared()
    with closing(one_connection(money.client)) as client:
        token = money.gate.close_tenant(client, tenant_id)
        snapshot = fence_and_snapshot(tenant_id)
        if not all(_written(client, tenant, token) for tenant in snapshot):
            return None
        if not money.gate.open_tenant(client, tenant_id, token):
            return None
    metrics.REBUILDS.labels("tenant").inc()
    log.warning("tenant's money rebuilt", tenant_id=tenant_id, holds=_summary(snapshot).holds)
    return _summary(snapshot)


def fence_and_snapshot(tenant_id: str | None) -> list[TenantMoney]:
    """One transaction, one view: first the fence, then everything the fenced rows can no longer change.

    REPEATABLE READ takes the view at the fence itself. A run that moved meanwhile makes the fence fail, and it is
    taken again: the gate is closed, so there is soon nothing left to move.
    """
    for attempt in range(1, SNAPSHOT_ATTEMPTS + 1):
        try:
            with transaction.atomic():
                _repeatable_read()
                ports.open_runs().fence(tenant_id=tenant_id)
                snapshot = _composed(tenant_id)
        except OperationalError as error:
            if attempt == SNAPSHOT_ATTEMPTS or not isinstance(error.__cause__, _SAFE_TO_REPEAT):
                raise
        else:
            return snapshot
    raise AssertionError("unreachable")


def _composed(tenant_id: str | None) -> list[TenantMoney]:
    since = clock.now() - timedelta(seconds=keys.RECEIPT_TTL_SECONDS)
    sums = ledger.sums(tenant_id=tenant_id)
    runs = ports.open_runs()
    return compose(
        ledger_micros={owner: each.total_micros for owner, each in sums.items()},
        open_runs=runs.open(tenant_id=tenant_id),
        ended_runs=runs.ended_since(tenant_id=tenant_id, since=since),
        credits_counted=_credits(tenant_id),
    )


def _credits(tenant_id: str | None) -> Iterator[Credit]:
    """Entries whose credit may still be under way: those pending, and those of the last day by the database's clock."""
    entries = LedgerEntry.objects.exclude(kind=LedgerEntry.Kind.CHARGE)
    a_day_ago = Now() - timedelta(seconds=keys.RECEIPT_TTL_SECONDS)
    recent = entries.filter(created_at__gte=a_day_ago, pending__isnull=True)
    for chosen, is_pending in ((recent, False), (entries.filter(pending__isnull=False), True)):
        mine = chosen if tenant_id is None else chosen.filter(tenant_id=tenant_id)
        rows = mine.values_list("tenant_id", "entry_id", "amount_usd_micros")
        for owner, entry_id, micros in rows.iterator(chunk_size=ledger.CHUNK):
            yield Credit(owner, str(entry_id), micros, pending=is_pending)


def _written(client: redis.Redis, tenant: TenantMoney, token: str) -> bool:
    for number, batch in enumerate(tenant.batches()):
        outcome = scripts.shared().write(
            client=client,
            tenant_id=tenant.tenant_id,
            token=token,
            balance_micros=tenant.balance_micros,
            begin=number == 0,
            items=batch,
        )
        if isinstance(outcome, Superseded):
            log.warning("rebuild superseded", tenant_id=tenant.tenant_id)
            return False
    return True


def _summary(snapshot: list[TenantMoney]) -> Rebuilt:
    return Rebuilt(
        tenants=len(snapshot),
        holds=sum(item.kind == "hold" for tenant in snapshot for item in tenant.items),
        balance_micros=sum(tenant.balance_micros for tenant in snapshot),
    )


def _repeatable_read() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
