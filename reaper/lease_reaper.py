"""Ends runs whose worker is gone: at work, unclaimed, and nobody renewed the lease (DPP-40).

    claim    by compare-and-set on version, lease and stage: a live lease, or a claim by its worker, loses it for us
    settle   the minimum fee
    commit   FAILED, WORKER_TIMEOUT

A death after the claim leaves the intent to the reconciler. A worker that comes back later finds its run claimed: it
touches neither money nor pointers.
"""

from datetime import datetime
from typing import Final

from dpp_project.jobs.registry import PassReport
from dpp_project.reasons import ReasonCode
from reaper import driver, metrics
from reaper.tally import Tally
from runs import transitions
from runs.claims import LOST, Claimed, Lost
from runs.intents import Intent
from runs.models import Run
from runs.reads import for_recovery

ACTOR: Final = "reaper"


def reap_leases(*, now: datetime, limit: int) -> PassReport:
    del now  # leases are measured by the database's clock alone
    tally = Tally(ACTOR, limit=limit)
    driver.finish_each(tally, _expired_lease_claim, for_recovery.lease_expired())
    return tally.report()


def preview_reaping_leases(*, now: datetime, limit: int) -> PassReport:
    del now
    due = for_recovery.lease_expired()[:limit].count()
    return PassReport(seen=due, changed=due)


def _expired_lease_claim(run: Run) -> Claimed | Lost:
    intent = Intent.minimum_fee(
        minimum_fee_micros=run.minimum_fee_usd_micros,
        reserved_micros=run.reservation_max_cost_usd_micros,
        reason=ReasonCode.WORKER_TIMEOUT,
        detail="The worker stopped renewing its lease.",
    )
    claimed = transitions.claim_lease_expired(run=run, intent=intent, actor=ACTOR)
    if claimed is not LOST:
        metrics.LEASES_EXPIRED.inc()
    return claimed
