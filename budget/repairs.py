"""Money made again from the ledger because a person asks for it: entered in the audit trail, and told when it is done.

A rebuild writes to Redis alone, so its entry follows it: a death in between leaves the rebuild with its log line. What
the platform rebuilds by itself (the gate watch, a lost balance met on the way) is no person's act and no entry.

What a rebuild would change is bounded as every act of one person is: the differences that stand are counted first. A
balance that is lost or closed is not counted, since the platform rebuilds that by itself. Between counting and
rebuilding a difference may grow; the ledger, which the rebuild follows, takes two people all the same.
"""

from dataclasses import asdict

from django.db import transaction

from budget import solo_limit
from budget.rebuild import rebuild
from budget.rebuild.rebuild import Busy, Rebuilt
from budget.verification import verify
from budget.verification.verify import OF_CAPS, DifferenceKind, Proof
from dpp_project.audit import trail
from dpp_project.refusals import Refusal
from tenants.models import Tenant


def rebuild_by_hand(tenant_id: str | None, *, actor: str, approved_by: str | None = None) -> Rebuilt | Busy | Refusal:
    """One tenant's money, or that of all. Raises what a rebuild raises."""
    refusal = None if approved_by is not None else _too_much(tenant_id)
    if refusal is not None:
        return refusal
    made = rebuild.rebuild_all() if tenant_id is None else rebuild.rebuild_tenant(tenant_id)
    if isinstance(made, Rebuilt):
        with transaction.atomic():
            trail.record_in_trail(
                "money rebuilt",
                actor=actor,
                subject="all tenants" if tenant_id is None else f"tenant {tenant_id}",
                tenant_id=tenant_id,
                after=asdict(made),
            )
    return made


def _too_much(tenant_id: str | None) -> Refusal | None:
    tenants = Tenant.objects.order_by("tenant_id").values_list("tenant_id", flat=True).iterator()
    moved_micros = 0
    for each in tenants if tenant_id is None else (tenant_id,):
        moved_micros += _differing_micros(verify.verify_tenant_money(each))
        found = solo_limit.solo_limit_fault(
            moved_micros, field="tenant", ticket_type="BUDGET_REBUILD", approved_by=None
        )
        if found is not None:
            return found
    return None


def _differing_micros(proof: Proof) -> int:
    return sum(
        abs(it.expected_micros - it.found_micros)
        for it in proof.differences
        if it.kind is not DifferenceKind.BALANCE_LOST and it.kind not in OF_CAPS
    )
