"""Finds money that does not fit its runs, and makes it right to the micro (DPP-44).

    abandoned submits   rows left at money NONE for a minute: claim by compare-and-set, give back what may have been
                        held (or leave a tombstone against a late hold), FAILED, SUBMIT_ABANDONED
    holds               tenant by tenant: a hold without a run, one of another amount, a run without its hold. What
                        is found was read while the tenant's sequence stood still, so it is no moment's in-between; the
                        tenant is then rebuilt from Postgres, behind its own gate

Each part is safe twice and beside itself. A death in the first leaves a claim to the reconciler, in the second the
tenant's gate closed, which the watch of the gates takes over. Credits that a death left on their way are brought home
by a job of budget's. A balance that is wrong while every hold is right has no cause that we know: that is reported, by
`money_verify`, and left to a person.
"""

from bisect import bisect
from datetime import datetime
from typing import Final

import structlog

from budget import verify
from budget.rebuild import rebuild
from budget.redis import keys, scripts
from budget.verify import DifferenceKind, Proof, Verdict
from dpp_project.jobs.registry import PassReport
from dpp_project.reasons import ReasonCode
from reaper import driver, metrics
from reaper.tally import Tally
from runs import transitions
from runs.claims import Claimed, Lost
from runs.intents import Intent
from runs.models import Run
from runs.reads import for_recovery
from runs.states import UNENDED_MONEY
from tenants.models import Tenant

log = structlog.get_logger("dpp.reaper")

ACTOR: Final = "auditor"
HOLD_FAULTS: Final = (
    DifferenceKind.HOLD_WITHOUT_RUN,
    DifferenceKind.HOLD_OF_ANOTHER_AMOUNT,
    DifferenceKind.RUN_WITHOUT_HOLD,
)
DIFFERENCES_LOGGED: Final = 20


class _Turn:
    """The last tenant that this process compared; empty when a pass has compared them all."""

    after = ""


def run_once(*, now: datetime, limit: int) -> PassReport:
    """`limit` runs, and as many tenants. Ages are the database's."""
    del now
    tally = Tally(ACTOR, limit=limit)
    driver.finish_each(tally, _claimed, for_recovery.abandoned())
    if not tally.waits and driver.money_is_closed():
        tally.wait_for("money")
    if not tally.waits:
        _compare_tenants(tally, limit)
    return tally.report()


def preview(*, now: datetime, limit: int) -> PassReport:
    """Counts what would be ended, and compares tenants without rebuilding any."""
    del now
    tally = Tally(ACTOR)
    if driver.money_is_closed():
        tally.wait_for("money")
        return tally.report()
    tally.seen = for_recovery.abandoned()[:limit].count()
    for tenant_id in _tenants()[:limit]:
        with tally.each(tenant_id, seen=0):
            tally.seen += _holds_differ(verify.verify(tenant_id))
    tally.changed = tally.seen
    return tally.report()


def _claimed(run: Run) -> Claimed | Lost:
    intent = Intent.full_refund(
        reason=ReasonCode.SUBMIT_ABANDONED, detail="The submit died before its money was marked as held."
    )
    return transitions.claim_abandoned(run=run, intent=intent, actor=ACTOR)


def _compare_tenants(tally: Tally, limit: int) -> None:
    """Where the pass ends before all tenants were compared, the next one of this process goes on behind the last."""
    tenant_ids = _tenants()
    for at, tenant_id in enumerate(tenant_ids):
        if at >= limit or (at and tally.is_late()):
            return
        _Turn.after = tenant_id
        errors = tally.errors
        with tally.each(tenant_id, seen=0):
            proof = verify.verify(tenant_id)
            tally.noted["tenants compared"] += 1
            if _holds_differ(proof):
                _make_right(tally, proof)
            elif proof.verdict is not Verdict.PROVED:
                tally.noted[proof.verdict] += 1
        if tally.errors > errors and driver.money_is_closed():
            tally.wait_for("money")
            return
    _Turn.after = ""


def _holds_differ(proof: Proof) -> bool:
    return any(found.kind in HOLD_FAULTS for found in proof.differences)


def _make_right(tally: Tally, proof: Proof) -> None:
    tally.seen += 1
    log.error(
        "holds do not fit their runs, the tenant is rebuilt",
        tenant_id=proof.tenant_id,
        drift_usd_micros=proof.drift_micros,
        differences=[
            {
                "kind": found.kind.value,
                "run_id": found.run_id,
                "expected_usd_micros": found.expected_micros,
                "found_usd_micros": found.found_micros,
            }
            for found in proof.differences[:DIFFERENCES_LOGGED]
        ],
    )
    if isinstance(rebuild.rebuild_tenant(proof.tenant_id), rebuild.Rebuilt):
        metrics.HOLDS_MENDED.inc()
        tally.changed += 1
        tally.noted["tenants rebuilt"] += 1


def _tenants() -> list[str]:
    """Those with open runs, or with holds; first those behind the last one of a pass that had to end early."""
    open_money = Run.objects.filter(money_state__in=sorted(UNENDED_MONEY))
    found = sorted({*open_money.values_list("tenant_id", flat=True).distinct(), *_with_holds()})
    first = bisect(found, _Turn.after)
    return found[first:] + found[:first]


def _with_holds() -> list[str]:
    tenant_ids = list(Tenant.objects.values_list("tenant_id", flat=True))
    with scripts.shared().client.pipeline(transaction=False) as pipe:
        for tenant_id in tenant_ids:
            pipe.hlen(keys.holds(tenant_id))
        counts = pipe.execute()
    return [tenant_id for tenant_id, count in zip(tenant_ids, counts, strict=True) if count]
