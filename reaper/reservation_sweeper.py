"""Ends runs that waited an hour and that no worker ever started: everything goes back (DPP-41).

    claim    by compare-and-set on version, QUEUED and stage: a worker that starts the run meanwhile wins
    refund   from the hold, which never expires: the reserve key, gone after the same hour, decides nothing
    commit   FAILED and REFUNDED, RESERVATION_EXPIRED

A death after the claim leaves the intent to the reconciler. A message that comes later finds no run to start.
"""

from datetime import datetime
from typing import Final

from dpp_project.jobs.registry import PassReport
from dpp_project.reasons import ReasonCode
from reaper import driver
from reaper.tally import Tally
from runs import transitions
from runs.claims import Claimed, Lost
from runs.intents import Intent
from runs.models import Run
from runs.reads import for_recovery

ACTOR: Final = "sweeper"


def sweep_reservations(*, now: datetime, limit: int) -> PassReport:
    del now  # the hour is measured by the database's clock alone
    tally = Tally(ACTOR, limit=limit)
    driver.finish_each(tally, _expired_reservation_claim, for_recovery.never_started())
    return tally.report()


def preview_sweeping_reservations(*, now: datetime, limit: int) -> PassReport:
    del now
    due = for_recovery.never_started()[:limit].count()
    return PassReport(seen=due, changed=due)


def _expired_reservation_claim(run: Run) -> Claimed | Lost:
    intent = Intent.full_refund(reason=ReasonCode.RESERVATION_EXPIRED, detail="No worker started the run in an hour.")
    return transitions.claim_never_started(run=run, intent=intent, actor=ACTOR)
