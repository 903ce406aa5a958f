"""The names of the money in Redis. All keys of one tenant and of its runs live on one server."""

from typing import Final

EPOCH: Final = "budget:epoch"
CLOSED_PREFIX: Final = "closed."
REBUILD: Final = "budget:rebuild"
"""Who rebuilds now; it runs out."""
EVIDENCE: Final = "budget:evidence"
"""The newest commits of Postgres that Redis heard of; see budget/rebuild/evidence.py."""
EVIDENCE_MAX: Final = 1_000
EVIDENCE_CUT_ABOVE: Final = 1_100
"""The scripts cut it from this length on, a hundred at once: to cut costs them as much as to tell."""
POSTGRES: Final = "budget:postgres"
"""The Postgres process that was last found to know of all of them."""

RESERVE_TTL_SECONDS: Final = 3_600
RECEIPT_TTL_SECONDS: Final = 86_400
RECEIPT_REBUILT_SECONDS: Final = 900
"""Receipts of runs committed longer ago are not made again. A finisher asks within its claim's 300 s; a later one reads
that the run has ended, or meets a rebuild of the tenant."""
VERIFY_GATE_MS: Final = 50


def balance_key(tenant_id: str) -> str:
    return f"budget:{tenant_id}:balance_usd_micros"


def seq_key(tenant_id: str) -> str:
    """Raised by every script that changed this tenant's money."""
    return f"budget:{tenant_id}:seq"


def gate_key(tenant_id: str) -> str:
    """Exists while this one tenant is closed; says by whom."""
    return f"budget:{tenant_id}:gate"


def holds_key(tenant_id: str) -> str:
    """Run id → micros held. It never expires: this is what the scripts settle from."""
    return f"holds:{tenant_id}"


def reserve_key(run_id: str) -> str:
    """The documented hash of a reservation. It expires; nothing is decided by its absence."""
    return f"reserve:{run_id}"


def receipt_key(run_id: str) -> str:
    """What a settle or refund did, so that asked again it answers the same."""
    return f"receipt:{run_id}"


def caps_key(tenant_id: str, lineage_id: str | None = None) -> str:
    """The limits and counters of a scope: the tenant, or the lineage of one of its keys. It never expires."""
    return f"caps:{tenant_id}" if lineage_id is None else f"caps:{tenant_id}:{lineage_id}"


def scope_keys(tenant_id: str, lineage_id: str | None) -> list[str]:
    """Where a run of this lineage counts: the tenant first."""
    return [caps_key(tenant_id)] if lineage_id is None else [caps_key(tenant_id), caps_key(tenant_id, lineage_id)]


def credit_key(entry_id: str) -> str:
    """That a top-up or adjustment has reached the balance."""
    return f"credit:{entry_id}"
