"""One pass of `money_verify`: the law of the next tenants, then a stretch of the ledger.

A pass takes the tenants in turn and stops when its time is over; the next one, of whatever process, goes on behind.
Where that is, and which tenants are known to differ, stands in the report that the pass leaves: so nothing that was
found is forgotten before its tenant is looked at again, and no tenant is too far back to be looked at. A tenant that
could not be compared (closed, never still, its service away) counts as unproved, never as without a difference; the
turn goes on behind it, so that it keeps nobody from theirs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import structlog

from budget.verification import ledger_audit, verify
from budget.verification.ledger_audit import Audited, AuditPlace
from budget.verification.verify import Difference, Proof
from dpp_project.jobs import deadline
from dpp_project.jobs.models import JobReport
from dpp_project.jobs.registry import PassReport
from tenants.models import Tenant

log = structlog.get_logger("dpp.budget")

JOB: Final = "money_verify"
ROWS_AUDITED: Final = 200_000
"""Of the ledger and of the runs in one pass: some seconds of it, and 57 M rows a day."""
DIFFERENCES_SHOWN: Final = 20
STANDING_MAX: Final = 1_000
"""Tenants that are carried from report to report; where more differ, the figures say enough."""


@dataclass(slots=True)
class _Pass:
    law: dict[str, int]
    """Tenant → micros that its balance differs by; 0 where its holds differ alone."""
    ledger: dict[str, int]
    """Tenant → micros that its entries, snapshots and runs differ by."""
    unproved: dict[str, str]
    """Tenant → why it could not be told."""
    found: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: {"closed": 0, "unsettled": 0, "failed": 0, "gated": 0})
    compared: int = 0
    rows_audited: int = 0

    @classmethod
    def following(cls, last: Mapping[str, Any], tenant_ids: Sequence[str]) -> "_Pass":
        known, there = last.get("standing", {}), set(tenant_ids)
        law, ledger, unproved = (
            {key: told for key, told in known.get(name, {}).items() if key in there} for name in _STANDING
        )
        return cls(law, ledger, unproved)

    def take(self, proof: Proof) -> None:
        tenant_id = proof.tenant_id
        self.counts["gated"] += proof.gated
        if proof.drift_micros is None:
            self.counts[proof.verdict.value] += 1
            self.unproved[tenant_id] = proof.verdict.value
            return
        self.unproved.pop(tenant_id, None)
        self.law.pop(tenant_id, None)
        if proof.differences:
            self.law[tenant_id] = proof.drift_micros
            self._tell(tenant_id, proof.differences)

    def take_audited(self, tenant_id: str, chunk: Audited) -> None:
        """A difference stands until its tenant was walked from end to end without one."""
        self.rows_audited += chunk.rows
        if chunk.differences:
            self._tell(tenant_id, chunk.differences)
        if chunk.wrong_micros is not None:
            self.ledger[tenant_id] = chunk.wrong_micros
        elif chunk.place is None:
            self.ledger.pop(tenant_id, None)

    def fail(self, tenant_id: str) -> None:
        self.counts["failed"] += 1
        self.unproved[tenant_id] = "failed"

    def _tell(self, tenant_id: str, differences: Sequence[Difference]) -> None:
        shown = self.found.setdefault(tenant_id, [])
        shown += [asdict(it) for it in differences[: DIFFERENCES_SHOWN - len(shown)]]

    def report(self, *, after: str, audit: AuditPlace | None) -> PassReport:
        standing = {name: dict(list(getattr(self, name).items())[:STANDING_MAX]) for name in _STANDING}
        return PassReport(
            seen=self.compared,
            errors=len(self.law.keys() | self.ledger.keys()),
            detail={
                **self.counts,
                "drift_usd_micros": sum(self.law.values()) + sum(self.ledger.values()),
                "unproved": len(self.unproved),
                "rows_audited": self.rows_audited,
                "differ": dict(list(self.found.items())[:DIFFERENCES_SHOWN]),
                "standing": standing,
                "after": after,
                "audit": None if audit is None else audit.document(),
                "audit_days": None if audit is None or audit.days is None else audit.days.document(),
            },
        )


_STANDING: Final = ("law", "ledger", "unproved")


def run_verify_pass(*, limit: int) -> PassReport:
    """At most `limit` tenants. Safe beside itself and late: it changes nothing but its report."""
    last = _last_report()
    tenant_ids = list(Tenant.objects.order_by("tenant_id").values_list("tenant_id", flat=True))
    current = _Pass.following(last, tenant_ids)
    after = _prove(current, tenant_ids, after=last.get("after", ""), limit=limit)
    return current.report(after=after, audit=_audit(current, tenant_ids, last))


def _last_report() -> Mapping[str, Any]:
    """Of the last pass that came to its end; one that failed or died says nothing."""
    reports = JobReport.objects.filter(job=JOB, ended_at__isnull=False, dry_run=False, detail__has_key="standing")
    detail: Mapping[str, Any] | None = reports.order_by("-started_at").values_list("detail", flat=True).first()
    return detail or {}


def _prove(current: _Pass, tenant_ids: Sequence[str], *, after: str, limit: int) -> str:
    """The tenant behind which the next pass begins; "" when all have had their turn."""
    turn = [tenant_id for tenant_id in tenant_ids if tenant_id > after] or tenant_ids
    for tenant_id in turn[:limit]:
        if current.compared and deadline.is_over():
            return after
        after = tenant_id
        current.compared += 1
        try:
            current.take(verify.verify_tenant_money(tenant_id))
        except Exception as error:  # a store is away, or this one tenant is too much for it: others have their turn
            log.warning("tenant's money could not be compared", tenant_id=tenant_id, exc_info=error)
            current.fail(tenant_id)
            return after
    return "" if not turn or after == turn[-1] else after


def _audit(current: _Pass, tenant_ids: Sequence[str], last: Mapping[str, Any]) -> AuditPlace | None:
    """A stretch of the ledger, from where the last pass left it, once around at most; where the next one begins."""
    if not tenant_ids:
        return None
    left = last.get("audit")
    place = AuditPlace(tenant_ids[0])
    if left is not None and left["tenant_id"] in tenant_ids:
        place = AuditPlace.of(left, last.get("audit_days"))
    tenants = 0
    while tenants < len(tenant_ids) and current.rows_audited < ROWS_AUDITED:
        behind = AuditPlace(tenant_ids[(tenant_ids.index(place.tenant_id) + 1) % len(tenant_ids)])
        try:
            chunk = ledger_audit.audit_chunk(place)
        except Exception as error:  # as above
            log.warning("tenant's ledger could not be audited", tenant_id=place.tenant_id, exc_info=error)
            current.fail(place.tenant_id)
            return behind
        current.take_audited(place.tenant_id, chunk)
        tenants += chunk.place is None
        place = chunk.place or behind
        if deadline.is_over():
            break
    return place
