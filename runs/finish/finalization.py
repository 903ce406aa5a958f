"""From a claim to the end of a run: move the money as the row's intent says, then commit. (DPP-34)

Every finisher goes this way: worker, cancel, a failed enqueue, and each loop of recovery. The claim is its caller's, by
one of the claiming edges; what follows decides nothing any more.

    claim    died after it: the row is CLAIMED and says what to do; no money has moved
    settle   died after it: the receipt stands, and answers the next finisher with the same numbers
    commit   died after it: the run has ended, its ledger entries with it

What a death leaves, the reconciler takes over by compare-and-set after five minutes and sends through here again.
"""

import enum
import uuid
from dataclasses import dataclass, replace
from typing import Final, Self

import structlog

from budget import services
from budget.outcomes import Closed, NoHold, RefundOutcome, SettleOutcome, Unavailable
from budget.rebuild import rebuild
from runs import transitions
from runs.intents import Intent
from runs.models import Run
from runs.states import MoneyState, Stage
from runs.transitions import Outcome

log = structlog.get_logger("dpp.run")

TURNS: Final = 3
"""How often a finisher follows its own claim through a rebuild that raised the version under it."""


class Finish(enum.Enum):
    COMMITTED = "committed"
    LOST = "lost"  # another finisher has the run; this one changed nothing more
    WAITING = "waiting"  # money cannot move now; the row keeps its intent, and the reconciler comes back to it


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claimed row as its finisher knows it: what carrying out its intent needs, and no more."""

    run_id: uuid.UUID
    tenant_id: str
    version: int
    token: str
    money_state: MoneyState
    charge_micros: int

    @classmethod
    def won(cls, run: Run, *, token: str, intent: Intent) -> Self:
        """`run` as it was seen before the claim was won."""
        return cls(
            run_id=run.run_id,
            tenant_id=run.tenant_id,
            version=run.version + 1,
            token=token,
            money_state=intent.money_state,
            charge_micros=intent.charge_micros,
        )

    @classmethod
    def stored(cls, run: Run) -> Self:
        """What the claimed row itself says."""
        token, money_state, charge_micros = run.finalize_token, run.intent_money_state, run.intent_charge_usd_micros
        if run.finalize_stage != Stage.CLAIMED or token is None or money_state is None or charge_micros is None:
            raise ValueError(f"run {run.run_id} is not claimed")
        return cls(
            run_id=run.run_id,
            tenant_id=run.tenant_id,
            version=run.version,
            token=token,
            money_state=MoneyState(money_state),
            charge_micros=charge_micros,
        )


def new_token() -> str:
    return uuid.uuid4().hex


def finish(claim: Claim, *, actor: str) -> Finish:
    """Carry the claim out. Safe to repeat, beside itself and late; raises only what the database raises.

    A rebuild raises the version of claimed rows and writes their holds back: its finisher then loses the commit, takes
    its own claim again and settles once more. Whoever finds another's token there has lost for good.
    """
    for _ in range(TURNS):
        moved = _move_money(claim)
        if isinstance(moved, NoHold) or moved == Unavailable(Closed.BALANCE):
            if not rebuild.mended(claim.tenant_id):  # which fences this claim as well
                return Finish.WAITING
        elif isinstance(moved, Unavailable):
            log.warning("money cannot move, the claim waits", run_id=str(claim.run_id), closed=moved.closed)
            return Finish.WAITING
        elif _committed(claim, taken_micros=moved.charge_micros, actor=actor):
            return Finish.COMMITTED
        again = _take_again(claim, actor=actor)
        if again is None:
            return Finish.LOST
        claim = again
    return Finish.WAITING


def _move_money(claim: Claim) -> SettleOutcome | RefundOutcome:
    run_id = str(claim.run_id)
    if claim.money_state is MoneyState.REFUNDED:
        return services.refund(tenant_id=claim.tenant_id, run_id=run_id)
    return services.settle(tenant_id=claim.tenant_id, run_id=run_id, charge_micros=claim.charge_micros)


def _committed(claim: Claim, *, taken_micros: int, actor: str) -> bool:
    outcome = transitions.commit(
        run_id=claim.run_id, version=claim.version, token=claim.token, taken_micros=taken_micros, actor=actor
    )
    return outcome is Outcome.WON


def _take_again(claim: Claim, *, actor: str) -> Claim | None:
    """The own claim at its new version; None when the run is another's, or has ended.

    The token stays, so that whoever asked for this finish still knows the claim when an answer gets lost, or money
    closes, on the way. A row that moved once more is read again in the next turn.
    """
    run = Run.objects.filter(run_id=claim.run_id, finalize_stage=Stage.CLAIMED, finalize_token=claim.token).first()
    if run is None:
        return None
    retaken = transitions.retake(
        run_id=run.run_id, version=run.version, token=claim.token, held_token=claim.token, actor=actor
    )
    return replace(claim, version=run.version + 1) if retaken is Outcome.WON else claim
