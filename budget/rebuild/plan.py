"""What a tenant's money in Redis must be, worked out from what the database knows. Pure, and in pieces.

First each tenant's balance, Σ ledger less Σ open holds; it may be below zero. Then what stands beside it, item by item.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from budget.ports import EndedRun, OpenRun
from budget.redis.items import Batch, RebuildItem
from budget.redis.windows import NOWHERE, Counted

BATCH_ITEMS: Final = 500


@dataclass(frozen=True, slots=True)
class Credit:
    """A top-up or adjustment the ledger total has counted."""

    tenant_id: str
    entry_id: str
    amount_micros: int
    pending: bool = True
    """Its row waits in pending_credits: as long as it does, its receipt must stand."""
    counted: Counted = NOWHERE


def rebuild_items(
    *, open_runs: Iterable[OpenRun], ended_runs: Iterable[EndedRun], credits_counted: Iterable[Credit]
) -> Iterator[tuple[str, RebuildItem]]:
    """Each with its tenant, in the order they come."""
    for run in open_runs:
        if run.reserved:
            yield run.tenant_id, RebuildItem("hold", run.run_id, run.reserved_micros, run.created_at_ms)
        else:
            yield run.tenant_id, RebuildItem("none", run.run_id)
    for ended in ended_runs:
        yield ended.tenant_id, RebuildItem("receipt", ended.run_id, ended.charge_micros, ended.refund_micros)
    for counted in credits_counted:
        yield counted.tenant_id, RebuildItem("credit", counted.entry_id, counted.amount_micros, int(counted.pending))


def rebuild_batches(balances: Mapping[str, int], items: Iterable[tuple[str, RebuildItem]]) -> Iterator[Batch]:
    """One that sets its balance for every tenant of `balances`; then the items, as long as they are of one tenant."""
    for tenant_id, balance_micros in balances.items():
        yield Batch(tenant_id, balance_micros, begin=True)
    batch: list[RebuildItem] = []
    owner = ""
    for tenant_id, item in items:
        if batch and (tenant_id != owner or len(batch) == BATCH_ITEMS):
            yield Batch(owner, balances[owner], begin=False, items=batch)
            batch = []
        owner = tenant_id
        batch.append(item)
    if batch:
        yield Batch(owner, balances[owner], begin=False, items=batch)
