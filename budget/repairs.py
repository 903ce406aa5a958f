"""Money made again from the ledger because a person asks for it: entered in the audit trail, and told when it is done.

A rebuild writes to Redis alone, so its entry follows it: a death in between leaves the rebuild with its log line. What
the platform rebuilds by itself (the gate watch, a lost balance met on the way) is no person's act and no entry.
"""

from dataclasses import asdict

from django.db import transaction

from budget.rebuild import rebuild
from budget.rebuild.rebuild import Busy, Rebuilt
from dpp_project.audit import trail


def rebuild_by_hand(tenant_id: str | None, *, actor: str) -> Rebuilt | Busy:
    """One tenant's money, or everybody's. Raises what a rebuild raises."""
    made = rebuild.rebuild_all() if tenant_id is None else rebuild.rebuild_tenant(tenant_id)
    if isinstance(made, Rebuilt):
        with transaction.atomic():
            trail.record(
                "money rebuilt",
                actor=actor,
                subject="all tenants" if tenant_id is None else f"tenant {tenant_id}",
                tenant_id=tenant_id,
                after=asdict(made),
            )
    return made
