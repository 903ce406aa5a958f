"""From a claim to the end of a run: move the money as the row's intent says, then commit. (DPP-34)

Every finisher goes this way: worker, cancel, a failed enqueue, and each loop of recovery. The claim is its caller's, by
one of the claiming edges; what follows decides nothing any more.

    claim    died after it: the row is CLAIMED and says what to do; no money has moved
    settle   died after it: the receipt stands, and answers the next finisher with the same numbers
    commit   died after it: the run has ended, its ledger entries with it

What a death leaves, the reconciler takes over by compare-and-set after five minutes and sends through here again.
"""

import enum
from dataclasses import dataclass
from typing import Final

import structlog

from budget import services
from budget.outcomes import AskAgain, RefundOutcome, SettleOutcome, Unavailable
from dpp_project.observe import spans
from runs import transitions
from runs.claims import LOST, Claim
from runs.models import Run
from runs.states import MoneyState, Stage

log = structlog.get_logger("dpp.run")

TURNS: Final = 3
"""How often a finisher follows its own claim through a rebuild that raised the version under it."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The run has ended, at this version."""

    version: int


class Unfinished(enum.Enum):
    LOST = "lost"  # another finisher has the run; this one changed nothing more
    WAITING = "waiting"  # money cannot move now; the row keeps its intent, and the reconciler comes back to it


def finish_claim(claim: Claim) -> Committed | Unfinished:
    """Carry the claim out. Safe to repeat, beside itself and late; raises only what the database raises.

    A rebuild raises the version of claimed rows and writes their holds back: its finisher then loses the commit, takes
    its own claim again and settles once more. A finisher that finds another's token there has lost for good.
    """
    with spans.finishing_span(claim.run_id, claim.trace_id, tenant_id=claim.tenant_id, actor=claim.actor):
        return _finalization_outcome(claim)


def _finalization_outcome(claim: Claim) -> Committed | Unfinished:
    for _ in range(TURNS):
        moved = _move_money(claim)
        if isinstance(moved, Unavailable):
            log.warning("money cannot move, the claim waits", run_id=str(claim.run_id), closed=moved.closed)
            return Unfinished.WAITING
        if not isinstance(moved, AskAgain):
            ended = transitions.commit(claim=claim, taken_micros=moved.charge_micros)
            if ended is not LOST:
                return Committed(ended.version)
        again = _take_again(claim)
        if again is None:
            return Unfinished.LOST
        claim = again
    return Unfinished.WAITING


def _move_money(claim: Claim) -> SettleOutcome | RefundOutcome:
    run_id = str(claim.run_id)
    if claim.money_state is MoneyState.REFUNDED:
        return services.refund(tenant_id=claim.tenant_id, run_id=run_id, was_held=claim.was_held, counted=claim.counted)
    return services.settle(
        tenant_id=claim.tenant_id, run_id=run_id, charge_micros=claim.charge_micros, counted=claim.counted
    )


def _take_again(claim: Claim) -> Claim | None:
    """The own claim at its new version; None when the run is another's, or has ended.

    A row that moved once more is read again in the next turn.
    """
    run = Run.objects.filter(run_id=claim.run_id, finalize_stage=Stage.CLAIMED, finalize_token=claim.token).first()
    if run is None:
        return None
    retaken = transitions.retake(run=run, actor=claim.actor, own_token=claim.token)
    return claim if retaken is LOST else retaken.claim
