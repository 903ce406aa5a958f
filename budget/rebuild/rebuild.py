"""Redis made again from Postgres: close, fence, snapshot and write, open.

What dies where:
    before `close`                     nothing happened
    after `close`                      money stays closed; the gate watch starts again from the beginning
    in the middle of `fence`           as above; runs that were fenced are met again only where an actor moved them
    in the middle of `snapshot, write` as above; what was written is behind the gate
    after `open`                       done; a tenant whose part failed has a gate of its own, for the watch
A flush or restart in between changes the epoch or the server, and `write` or `open` answer that they are superseded.

The fence goes in batches of a transaction each. Behind the closed gate no run begins to move money, so what was fenced
needs no other fence before the snapshot, and what comes after the fence needs none. The snapshot is one view
(REPEATABLE READ), written as it is read: its length is that of the open runs, and never of yesterday's.

What fails for one tenant must not keep all money closed. Where the one view fails, and no store is away, each tenant is
written from a view of its own. Behind the closed gate no money moves, and tenants share none, so their views need not
be of one moment; and each is what a rebuild of that tenant alone reads, whose fence came before. One that fails again
gets a gate of its own before all money opens. That is where a rebuild of it alone leaves it that died: every script
refuses it, and the gate's watch rebuilds it until that succeeds.

A lease keeps a second rebuild from working in vain (lease.py). Nothing rests on it, since its holder may be frozen and
wake up late: of two that cross, `write` takes only the one that closed last, and its snapshot is the newer one. A
tenant's counts only while all money is open. Pending credits keep their rows: what was counted and written has its
receipt, which the replay meets; what was counted in vain is still on its way.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, islice
from typing import Final

import redis
import structlog
from django.db import Error, OperationalError, connection, transaction
from django.db.models.functions import Now
from psycopg import errors

from budget import ledger, metrics, ports
from budget.models import LedgerEntry
from budget.outcomes import ScriptRefused, Superseded
from budget.rebuild import evidence, lease
from budget.rebuild.evidence import LedgerBehind
from budget.rebuild.lease import RebuildLease
from budget.rebuild.plan import Credit, rebuild_batches, rebuild_items
from budget.rebuild.scopes import scope_items
from budget.redis import keys, scripts
from budget.redis.connection import one_connection
from budget.redis.gate import GateClosed
from dpp_project.jobs import deadline
from dpp_project.stores import postgres
from tenants.models import Tenant

log = structlog.get_logger("dpp.budget")

ATTEMPTS: Final = 5
FENCE_ATTEMPTS: Final = 5
BATCHES_AT_ONCE: Final = 16
_SAFE_TO_REPEAT: Final = (errors.DeadlockDetected,)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    tenants: int
    holds: int
    balance_micros: int
    left_closed: tuple[str, ...] = ()
    """Tenants who could not be rebuilt with the others: each is closed by itself."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Another rebuild has the lease, here or on another machine; or all money is closed, and one tenant was asked for.

    The end of that one, or of the rebuild of all that the gate watch begins within seconds, is this one's end too.
    """


class RebuildFailed(RuntimeError):  # noqa: N818  named for what happened
    """Superseded again and again: something empties or restarts Redis faster than it is rebuilt. Or a script has
    refused what Postgres says.
    """


def rebuild_all() -> Rebuilt | Busy:
    """Every tenant's money anew, under a new epoch. Where that fails for some of them, they alone stay closed.

    Raises RedisError, Django's database Error, RebuildFailed or LedgerBehind; money is closed then.
    """
    with lease.rebuild_lease(scripts.shared_scripts().client) as mine:
        if mine is None:
            return Busy()
        for _ in range(ATTEMPTS):
            if (rebuilt := _rebuild_all(mine)) is not None:
                return rebuilt
            # Superseded: by a flush, and then money is still closed; or by a rebuild that took this one for dead.
            if not mine.renewed() or not _all_is_closed():
                return Busy()
        raise RebuildFailed(f"superseded {ATTEMPTS} times")


def rebuild_tenant(tenant_id: str) -> Rebuilt | Busy:
    """One tenant's money anew, behind its own gate; the others go on. Fails as `rebuild_all` does."""
    with lease.rebuild_lease(scripts.shared_scripts().client) as mine:
        if mine is None:
            return Busy()
        for _ in range(ATTEMPTS):
            if not mine.renewed() or _all_is_closed():
                return Busy()
            if (rebuilt := _rebuild_tenant(tenant_id, mine)) is not None:
                return rebuilt
        raise RebuildFailed(f"{tenant_id}: superseded {ATTEMPTS} times")


def try_rebuild_tenant(tenant_id: str) -> bool:
    """Rebuild a tenant on the way, where a balance or hold was found missing; what fails is left to the gate watch."""
    try:
        return isinstance(rebuild_tenant(tenant_id), Rebuilt)
    except (redis.RedisError, Error, RebuildFailed, LedgerBehind) as error:
        log.warning("tenant's money could not be rebuilt now", tenant_id=tenant_id, exc_info=error)
        return False


def preview_rebuild(tenant_id: str | None) -> Rebuilt:
    """What a rebuild would write, without fencing or writing anything."""
    with _one_view():
        return _counted_rebuild_balances(tenant_id).summary()


def _all_is_closed() -> bool:
    try:
        scripts.shared_scripts().gate.looked_up()
    except GateClosed:
        return True
    return False


def _rebuild_all(mine: RebuildLease) -> Rebuilt | None:
    money = scripts.shared_scripts()
    # One connection for all steps: if the server goes away in between, the next step fails.
    with closing(one_connection(money.client)) as client:
        token = money.gate.close(client)
        log.warning("money closed for rebuilding")
        evidence.require_commits(client)  # behind the gate, so that nothing more is left, and before the ledger is read
        if not fence_open_runs(None, mine):
            return None
        rebuilt = _written_or_left_closed(client, token, mine)
        if rebuilt is None or (epoch := money.gate.open(client, token)) is None:
            return None
    metrics.REBUILDS.labels("all").inc()
    left_closed = len(rebuilt.left_closed)
    log.warning("money rebuilt", epoch=epoch, tenants=rebuilt.tenants, holds=rebuilt.holds, left_closed=left_closed)
    return rebuilt


def _rebuild_tenant(tenant_id: str, mine: RebuildLease) -> Rebuilt | None:
    money = scripts.shared_scripts()
    with closing(one_connection(money.client)) as client:
        evidence.require_commits(client)
        token = money.gate.close_tenant(client, tenant_id)
        if not fence_open_runs(tenant_id, mine):
            return None
        rebuilt = _written_from_one_view(client, tenant_id, token, mine)
        if rebuilt is None or not money.gate.open_tenant(client, tenant_id, token):
            return None
    metrics.REBUILDS.labels("tenant").inc()
    log.warning("tenant's money rebuilt", tenant_id=tenant_id, holds=rebuilt.holds)
    return rebuilt


def _written_or_left_closed(client: redis.Redis, token: str, mine: RebuildLease) -> Rebuilt | None:
    """All tenants, or all but those whose part fails; None as below."""
    try:
        return _written_from_one_view(client, None, token, mine)
    except Exception as error:
        if _is_of_a_store(error):
            raise
        log.warning("money could not be rebuilt from one view: tenant by tenant now", exc_info=error)
    return _written_tenant_by_tenant(client, token, mine)


def _written_tenant_by_tenant(client: redis.Redis, token: str, mine: RebuildLease) -> Rebuilt | None:
    """One that fails is gated by itself. What fails for every tenant is no tenant's, and leaves all money closed."""
    written: list[Rebuilt] = []
    failed: dict[str, Exception] = {}
    for tenant_id in Tenant.objects.order_by("tenant_id").values_list("tenant_id", flat=True):
        try:
            one = _written_from_one_view(client, tenant_id, token, mine)
        except Exception as error:
            if _is_of_a_store(error):
                raise
            log.exception("a tenant's money could not be rebuilt, it stays closed", tenant_id=tenant_id)
            scripts.shared_scripts().gate.close_tenant(client, tenant_id)
            failed[tenant_id] = error
            continue
        if one is None:
            return None
        written.append(one)
    if failed and not written:
        raise next(iter(failed.values()))
    return Rebuilt(
        len(written), sum(one.holds for one in written), sum(one.balance_micros for one in written), tuple(failed)
    )


def _is_of_a_store(error: Exception) -> bool:
    """Postgres or Redis is away: it says nothing about a tenant."""
    return postgres.is_away(error) or isinstance(error, redis.ConnectionError | redis.TimeoutError)


def _written_from_one_view(
    client: redis.Redis, tenant_id: str | None, token: str, mine: RebuildLease
) -> Rebuilt | None:
    """To be called behind the fence. None where another has closed since, or the lease is another's: it would be
    refused, and need not try.
    """
    with _one_view():
        counted = _counted_rebuild_balances(tenant_id)
        if not (mine.renewed() and _wrote_whole_rebuild(client, tenant_id, counted, token, mine)):
            return None
    return counted.summary()


def fence_open_runs(tenant_id: str | None, mine: RebuildLease) -> bool:
    """Every run between two effects has a version that nobody knows. A batch that meets another fence goes again."""
    for attempt in range(1, FENCE_ATTEMPTS + 1):
        try:
            for _ in ports.open_runs().fence(tenant_id=tenant_id):
                deadline.pass_progressed()
                if not mine.renewed():
                    return False
        except OperationalError as error:
            if attempt == FENCE_ATTEMPTS or not isinstance(error.__cause__, _SAFE_TO_REPEAT):
                raise
        else:
            return True
    raise AssertionError("unreachable")


@dataclass(frozen=True, slots=True)
class _Counted:
    """What must be known of every tenant before the first is written: Σ ledger less Σ open holds."""

    balances: dict[str, int]
    holds: int

    def summary(self) -> Rebuilt:
        return Rebuilt(len(self.balances), self.holds, sum(self.balances.values()))


def _counted_rebuild_balances(tenant_id: str | None) -> _Counted:
    balances, holds = ledger.ledger_totals(tenant_id=tenant_id), 0
    for reserved in ports.open_runs().reserved(tenant_id=tenant_id):
        balances[reserved.tenant_id] -= reserved.micros
        holds += reserved.runs
    return _Counted(balances, holds)


def _wrote_whole_rebuild(
    client: redis.Redis, tenant_id: str | None, counted: _Counted, token: str, mine: RebuildLease
) -> bool:
    """From the view to Redis, a few batches at a time: what is held in memory does not grow with what is written."""
    runs = ports.open_runs()
    beside = rebuild_items(
        open_runs=runs.open(tenant_id=tenant_id),
        ended_runs=runs.ended(tenant_id=tenant_id, within=timedelta(seconds=keys.RECEIPT_REBUILT_SECONDS)),
        credits_counted=_credits(tenant_id),
    )
    left = rebuild_batches(counted.balances, chain(beside, scope_items(tenant_id)))
    while some := list(islice(left, BATCHES_AT_ONCE)):
        try:
            outcome = scripts.shared_scripts().write(client=client, token=token, batches=some)
        except ScriptRefused as refused:
            raise RebuildFailed(f"a script has refused what Postgres says: {refused}") from refused
        deadline.pass_progressed()
        if isinstance(outcome, Superseded) or not mine.renewed():
            log.warning("rebuild superseded", tenant_id=tenant_id)
            return False
    return True


def _credits(tenant_id: str | None) -> Iterator[Credit]:
    """Entries whose credit may still be under way: those pending, and those of the last day by the database's clock."""
    entries = LedgerEntry.objects.exclude(kind=LedgerEntry.Kind.CHARGE)
    a_day_ago = Now() - timedelta(seconds=keys.RECEIPT_TTL_SECONDS)
    recent = entries.filter(created_at__gte=a_day_ago, pending__isnull=True)
    for chosen, is_pending in ((recent, False), (entries.filter(pending__isnull=False), True)):
        mine = chosen if tenant_id is None else chosen.filter(tenant_id=tenant_id)
        rows = mine.order_by("tenant_id").values_list("tenant_id", "entry_id", "amount_usd_micros")
        for owner, entry_id, micros in rows.iterator(chunk_size=ledger.CHUNK):
            yield Credit(owner, str(entry_id), micros, pending=is_pending)


@contextmanager
def _one_view() -> Iterator[None]:
    """One view of Postgres, from the first statement to the last. Nothing is written in it, and nothing refused."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield
