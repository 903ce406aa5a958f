"""Finds money that does not fit its runs, and makes it right to the micro (DPP-44).

    abandoned submits   rows left at money NONE for a minute: claim by compare-and-set, give back what may have been
                        held (or leave a tombstone against a late hold), FAILED, SUBMIT_ABANDONED
    money               tenant by tenant: a hold without a run, one of another amount, one that is no amount, a run
                        without its hold, a balance that is wrong. What is found was read while the tenant's sequence
                        stood still, so it is no moment's in-between; the tenant is then rebuilt from Postgres, behind
                        its own gate. Compared are the tenants with open runs or with holds, and those for whom the last
                        `money_verify`, which comes round to every tenant, found a difference. Of one that never stands
                        still as long as that takes (thousands of open runs), holds without a run are looked for one by
                        one

Each part is safe twice and beside itself. A death in the first leaves a claim to the reconciler, in the second the
tenant's gate closed, which the watch of the gates takes over. Credits that a death left on their way are brought home
by a job of budget's. What cannot be made right now is counted by its reason (`dpp_money_not_mended_total`), logged as
an error, and named in the report and in the console.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import structlog

from budget.rebuild import rebuild
from budget.redis import keys, scripts
from budget.verification import stray_holds, verify
from budget.verification.verify import DifferenceKind, Proof, Verdict
from dpp_project.jobs.models import JobReport
from dpp_project.jobs.registry import PassReport
from dpp_project.jobs.rotation import Rotation
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
BALANCE_FAULTS: Final = (DifferenceKind.BALANCE, DifferenceKind.BALANCE_LOST)
DIFFERENCES_LOGGED: Final = 20

_turn = Rotation()


def audit_holds(*, now: datetime, limit: int) -> PassReport:
    """`limit` runs, and as many tenants. Ages are the database's."""
    del now
    tally = Tally(ACTOR, limit=limit)
    driver.finish_each(tally, _abandoned_hold_claim, for_recovery.abandoned_runs())
    if not tally.waits and driver.money_is_closed():
        tally.wait_for("money")
    if not tally.waits:
        _compare_tenants(tally, limit)
    return tally.report()


def preview_auditing_holds(*, now: datetime, limit: int) -> PassReport:
    """Counts what would be ended, and compares tenants without rebuilding any."""
    del now
    tally = Tally(ACTOR)
    if driver.money_is_closed():
        tally.wait_for("money")
        return tally.report()
    tally.seen = for_recovery.abandoned_runs()[:limit].count()
    for tenant_id in _tenants()[:limit]:
        with tally.each(tenant_id, seen=0):
            tally.seen += _compared(tenant_id).verdict is Verdict.DIFFERS
    tally.changed = tally.seen
    return tally.report()


def _abandoned_hold_claim(run: Run) -> Claimed | Lost:
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
        _turn.after = tenant_id
        errors = tally.errors
        with tally.each(tenant_id, seen=0):
            proof = _compared(tenant_id)
            tally.noted["tenants compared"] += 1
            if proof.verdict is Verdict.DIFFERS:
                _make_right(tally, proof)
            elif proof.verdict is not Verdict.PROVED:
                tally.noted[proof.verdict] += 1
        if tally.errors > errors and driver.money_is_closed():
            tally.wait_for("money")
            return
    _turn.after = ""


def _compared(tenant_id: str) -> Proof:
    proof = verify.verify_tenant_money(tenant_id)
    return stray_holds.proof_of_single_holds(tenant_id) if proof.verdict is Verdict.UNSETTLED else proof


def _make_right(tally: Tally, proof: Proof) -> None:
    tally.seen += 1
    differences = [
        {
            "kind": found.kind.value,
            "run_id": found.run_id,
            "expected_usd_micros": found.expected_micros,
            "found_usd_micros": found.found_micros,
        }
        for found in proof.differences[:DIFFERENCES_LOGGED]
    ]
    said = {"tenant_id": proof.tenant_id, "drift_usd_micros": proof.drift_micros, "differences": differences}
    log.error("money does not fit its runs and ledger, the tenant is rebuilt", **said)
    try:
        made = rebuild.rebuild_tenant(proof.tenant_id)
    except Exception as error:  # counted, and raised as it was
        _not_mended(tally, type(error).__name__, said)
        raise
    if not isinstance(made, rebuild.Rebuilt):
        _not_mended(tally, type(made).__name__, said)
        return
    of_a_balance = all(found.kind in BALANCE_FAULTS for found in proof.differences)
    (metrics.BALANCES_MENDED if of_a_balance else metrics.HOLDS_MENDED).inc()
    tally.changed += 1
    tally.noted["tenants rebuilt"] += 1


def _not_mended(tally: Tally, why: str, said: Mapping[str, object]) -> None:
    """It stays wrong until a later pass, so an operator must hear of it."""
    metrics.NOT_MENDED.labels(why).inc()
    tally.noted[f"not mended: {why}"] += 1
    log.error("money that does not fit could not be made right", why=why, **said)


def _tenants() -> list[str]:
    """See the module; first those behind the last one of a pass that had to end early."""
    open_money = Run.objects.filter(money_state__in=sorted(UNENDED_MONEY))
    with_runs = open_money.values_list("tenant_id", flat=True).distinct()
    return _turn.in_turn({*with_runs, *_with_holds(), *_found_to_differ()})


def _found_to_differ() -> Iterable[str]:
    """What the last proof of all money reported. A tenant without runs and holds is compared nowhere else."""
    report = JobReport.objects.filter(job="money_verify", ended_at__isnull=False, dry_run=False)
    last = report.order_by("-started_at").first()
    named = [] if last is None else list(last.detail.get("differ", ()))
    return Tenant.objects.filter(tenant_id__in=named).values_list("tenant_id", flat=True)


def _with_holds() -> list[str]:
    tenant_ids = list(Tenant.objects.values_list("tenant_id", flat=True))
    with scripts.shared_scripts().client.pipeline(transaction=False) as pipe:
        for tenant_id in tenant_ids:
            pipe.hlen(keys.holds_key(tenant_id))
        counts = pipe.execute(raise_on_error=False)
    # A key that is no hash is answered by an error, which is its tenant's alone: that one is compared.
    return [tenant_id for tenant_id, count in zip(tenant_ids, counts, strict=True) if count]
