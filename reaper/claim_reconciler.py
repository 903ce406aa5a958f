"""Finishes what a finisher left behind: claimed five minutes ago, and not committed (DPP-42).

    look      only where a result was to be delivered: is it still in the bucket? A definite no is RESULT_LOST
    retake    by compare-and-set on version and age: the first finisher, if it lives, loses its commit by it
    reintend  only for a lost result: FAILED at the minimum fee, before this finisher moves any money
    settle    as the row says; a receipt answers what was taken already
    commit    as the row says

The stored intent is carried out, never decided again. Where a lost result had been settled in full before, the receipt
says more than the new intent: the commit then writes the charge as taken and gives the difference back (ADJUST).
A death anywhere leaves the row claimed, for the next pass five minutes on. While S3 does not answer, rows with a result
are left as they are.
"""

from datetime import datetime
from typing import Final

import structlog
from botocore.exceptions import BotoCoreError, ClientError

from budget.money import capped_charge_micros
from dpp_project.jobs.registry import Report
from reaper import metrics
from reaper.tally import Tally, money_is_closed
from runs import transitions
from runs.bucket import storage
from runs.claims import LOST, Claim
from runs.finish import finalization
from runs.models import Run
from runs.reads import for_recovery
from runs.states import Status

log = structlog.get_logger("dpp.reaper")

ACTOR: Final = "reconciler"


def run_once(*, now: datetime, limit: int) -> Report:
    del now  # a claim's age is measured by the database's clock alone
    tally = Tally(ACTOR)
    if money_is_closed():
        return tally.report(waits_for="money")
    for run in for_recovery.claimed_too_long()[:limit]:
        with tally.each(run):
            try:
                result_lost = _result_is_lost(run)
            except (BotoCoreError, ClientError, OSError) as error:
                log.warning("S3 does not say whether the result is there", run_id=str(run.run_id), exc_info=error)
                tally.noted["waiting"] += 1
                continue
            claim = _taken_over(run, result_lost=result_lost)
            if claim is None:
                tally.lost()
                continue
            metrics.TAKEOVERS.inc()
            tally.noted["result lost"] += result_lost
            if not tally.goes_on_after(finalization.finish(claim)):
                break
    return tally.report()


def preview(*, now: datetime, limit: int) -> Report:
    del now
    return Report(seen=(due := len(for_recovery.claimed_too_long()[:limit])), changed=due)


def _result_is_lost(run: Run) -> bool:
    """The bucket answered, and the result is not in it. Any other answer raises, and the row waits."""
    if run.intent_status != Status.COMPLETED or run.result_key is None:
        return False
    return storage.shared().head(run.result_key) is None


def _taken_over(run: Run, *, result_lost: bool) -> Claim | None:
    """The claim as ours now, or None where its finisher, or another reconciler, was faster."""
    claimed = transitions.retake(run=run, actor=ACTOR)
    if claimed is not LOST and result_lost:
        fee_micros = capped_charge_micros(
            run.minimum_fee_usd_micros, reserved_micros=run.reservation_max_cost_usd_micros
        )
        claimed = transitions.reintend(claim=claimed.claim, charge_micros=fee_micros)
    return None if claimed is LOST else claimed.claim
