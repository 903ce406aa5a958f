"""The gate's watch: finds money that is closed, or lost for one tenant, and rebuilds it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from budget.rebuild import evidence, rebuild
from budget.rebuild.evidence import LedgerBehind
from budget.rebuild.rebuild import Busy, Rebuilt
from budget.redis import keys, scripts
from budget.redis.gate import GateClosed
from tenants.models import Tenant

log = structlog.get_logger("dpp.budget")

CHUNK: Final = 1_000


@dataclass(slots=True)
class Watched:
    found: int = 0
    rebuilt: int = 0
    failed: int = 0
    tenants: list[str] = field(default_factory=list)

    def count(self, attempt: Callable[[], Rebuilt | Busy]) -> None:
        """A rebuild that fails, for whatever reason, is tried again at the next look; money stays closed until then."""
        self.found += 1
        try:
            made = attempt()
        except Exception as error:  # one tenant's rows may make anything fail, and the others wait behind it
            log.warning("money could not be rebuilt", exc_info=error)
            self.failed += 1
            return
        if isinstance(made, Rebuilt):
            self.rebuilt += 1
            self.failed += len(made.left_closed)
            self.tenants += made.left_closed


def watch_gates(*, limit: int) -> Watched:
    """One look, at most `limit` tenants rebuilt. Safe beside itself: the rebuild's lock lets one of them work.

    Asking for the epoch also finds a server that was changed under connections that stood, and asking for the evidence
    a Postgres that went back in time behind a pooler whose connections stood.
    """
    seen = Watched()
    try:
        scripts.shared_scripts().gate.looked_up()
    except GateClosed:
        seen.count(rebuild.rebuild_all)
        return seen
    try:
        evidence.require_commits(scripts.shared_scripts().client)
    except LedgerBehind:
        log.exception("money stays closed")
        return Watched(found=1, failed=1)
    for tenant_id in _tenants_lost_or_left_gated():
        if seen.found == limit:
            break
        seen.tenants.append(tenant_id)
        seen.count(lambda tenant_id=tenant_id: rebuild.rebuild_tenant(tenant_id))  # type: ignore[misc]
    return seen


def _tenants_lost_or_left_gated() -> Iterator[str]:
    """Tenants without a balance, and those whose gate a rebuild left closed when it died."""
    client = scripts.shared_scripts().client
    tenant_ids = list(Tenant.objects.order_by("tenant_id").values_list("tenant_id", flat=True))
    for at in range(0, len(tenant_ids), CHUNK):
        chunk = tenant_ids[at : at + CHUNK]
        balances: Any = client.mget([keys.balance_key(tenant_id) for tenant_id in chunk])
        gates: Any = client.mget([keys.gate_key(tenant_id) for tenant_id in chunk])
        for tenant_id, balance, gate in zip(chunk, balances, gates, strict=True):
            # A gate with an expiry is only counting; one under way now is Busy by its lock.
            if balance is None or (gate is not None and client.ttl(keys.gate_key(tenant_id)) == -1):
                yield tenant_id
