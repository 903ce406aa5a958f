"""What a tenant's money in Redis must be, worked out from what the database knows. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from budget.ports import EndedRun, OpenRun
from budget.redis.items import RebuildItem

BATCH_ITEMS: Final = 500


@dataclass(frozen=True, slots=True)
class Credit:
    """A top-up or adjustment the ledger total has counted."""

    tenant_id: str
    entry_id: str
    amount_micros: int
    pending: bool = True
    """Its row waits in pending_credits: as long as it does, its receipt must stand."""


@dataclass(slots=True)
class TenantMoney:
    """The balance and all that stands beside it. The balance is Σ ledger less Σ open holds, and may be below zero."""

    tenant_id: str
    balance_micros: int
    items: list[RebuildItem] = field(default_factory=list)

    def batches(self) -> list[list[RebuildItem]]:
        """At least one: the first also sets the balance."""
        return [self.items[at : at + BATCH_ITEMS] for at in range(0, max(1, len(self.items)), BATCH_ITEMS)]


def compose(
    *,
    ledger_micros: Mapping[str, int],
    open_runs: Iterable[OpenRun],
    ended_runs: Iterable[EndedRun],
    credits_counted: Iterable[Credit],
) -> list[TenantMoney]:
    """One TenantMoney for each tenant of `ledger_micros`, which must name every tenant, also those without entries."""
    money = {tenant_id: TenantMoney(tenant_id, total) for tenant_id, total in ledger_micros.items()}
    for run in open_runs:
        tenant = money[run.tenant_id]
        if run.reserved:
            tenant.balance_micros -= run.reserved_micros
            tenant.items.append(RebuildItem("hold", run.run_id, run.reserved_micros, run.created_at_ms))
        else:
            tenant.items.append(RebuildItem("none", run.run_id))
    for ended in ended_runs:
        money[ended.tenant_id].items.append(
            RebuildItem("receipt", ended.run_id, ended.charge_micros, ended.refund_micros)
        )
    for counted in credits_counted:
        money[counted.tenant_id].items.append(
            RebuildItem("credit", counted.entry_id, counted.amount_micros, int(counted.pending))
        )
    return list(money.values())
