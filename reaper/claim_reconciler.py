"""Finishes what a finisher left behind: claimed five minutes ago, and not committed (DPP-42).

    look      only where a result was to be delivered: is it still in the bucket? A definite no is RESULT_LOST
    retake    by compare-and-set on version and age: the first finisher, if it lives, loses its commit by it
    reintend  only for a lost result: FAILED at the minimum fee, before this finisher moves any money
    settle    as the row says; a receipt answers what was taken already
    commit    as the row says

The stored intent is carried out, never decided again. Where a lost result had been settled in full before, the receipt
says more than the new intent: the commit then writes the charge as taken and gives the difference back (ADJUST).
A death anywhere leaves the row claimed, for the next pass five minutes on.

Rows without a result come first: cancels, refunds and failures end while S3 is away. The first question that S3 does
not answer is the last of the pass, and the rows with a result keep as they are. A refusal of one object (403) is its
row's alone: the row is skipped and shown.
"""

from datetime import datetime
from functools import partial
from typing import Final

from budget.money import capped_charge_micros
from dpp_project.jobs.registry import PassReport
from reaper import driver, metrics
from reaper.tally import Tally
from runs import transitions
from runs.bucket import outages, storage
from runs.claims import LOST, Claimed, Lost
from runs.models import Run
from runs.reads import for_recovery
from runs.states import Status

ACTOR: Final = "reconciler"


def reconcile_claims(*, now: datetime, limit: int) -> PassReport:
    del now  # a claim's age is measured by the database's clock alone
    tally = Tally(ACTOR, limit=limit)
    driver.finish_each(
        tally,
        partial(_taken_over, tally),
        for_recovery.claimed_without_result(),
        for_recovery.claimed_with_result(),
        without_s3=1,
    )
    return tally.report()


def preview_reconciling_claims(*, now: datetime, limit: int) -> PassReport:
    del now
    due = for_recovery.claimed_too_long()[:limit].count()
    return PassReport(seen=due, changed=due)


def _taken_over(tally: Tally, run: Run) -> Claimed | Lost:
    """LOST where its finisher, or another reconciler, was faster."""
    result_lost = _result_is_lost(run)
    claimed = transitions.retake(run=run, actor=ACTOR)
    if claimed is not LOST and result_lost:
        fee_micros = capped_charge_micros(
            run.minimum_fee_usd_micros, reserved_micros=run.reservation_max_cost_usd_micros
        )
        claimed = transitions.reintend(claim=claimed.claim, charge_micros=fee_micros)
    if claimed is not LOST:
        metrics.TAKEOVERS.inc()
        tally.noted["result lost"] += result_lost
    return claimed


def _result_is_lost(run: Run) -> bool:
    """The bucket answered, and the result is not in it. Any other answer raises, and the row waits."""
    if run.intent_status != Status.COMPLETED or run.result_key is None:
        return False
    with outages.outages_told_apart():
        return storage.shared_run_storage().head(run.result_key) is None
