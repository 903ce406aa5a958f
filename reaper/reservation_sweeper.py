"""Ends runs that waited an hour and that no worker ever started: everything goes back (DPP-41).

    claim    by compare-and-set on version, QUEUED and stage: a worker that starts the run meanwhile wins
    refund   from the hold, which never expires: the reserve key, gone after the same hour, decides nothing
    commit   FAILED and REFUNDED, RESERVATION_EXPIRED

A death after the claim leaves the intent to the reconciler. A message that comes later finds no run to start.
"""

from datetime import datetime
from typing import Final

from dpp_project.jobs.registry import Report
from dpp_project.reasons import ReasonCode
from reaper.tally import Tally, money_is_closed
from runs import transitions
from runs.claims import LOST
from runs.finish import finalization
from runs.intents import Intent
from runs.reads import for_recovery

ACTOR: Final = "sweeper"


def run_once(*, now: datetime, limit: int) -> Report:
    del now  # the hour is measured by the database's clock alone
    tally = Tally(ACTOR)
    if money_is_closed():
        return tally.report(waits_for="money")
    intent = Intent.full_refund(reason=ReasonCode.RESERVATION_EXPIRED, detail="No worker started the run in an hour.")
    for run in for_recovery.never_started()[:limit]:
        with tally.each(run):
            claimed = transitions.claim_never_started(run=run, intent=intent, actor=ACTOR)
            if claimed is LOST:
                tally.lost()
                continue
            if not tally.goes_on_after(finalization.finish(claimed.claim)):
                break
    return tally.report()


def preview(*, now: datetime, limit: int) -> Report:
    del now
    return Report(seen=(due := len(for_recovery.never_started()[:limit])), changed=due)
