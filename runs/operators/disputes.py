"""An operator marks a settled run disputed and resolves it: the charge stands, or goes back. Who and why is kept."""

import uuid
from functools import partial
from typing import Final

import structlog
from django.db import transaction

from budget import entries, ledger, solo_limit
from budget.models import LedgerEntry, PendingCredit
from budget.money import MAX_MICROS
from dpp_project.audit import trail
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from runs import transitions
from runs.claims import LOST, Moved
from runs.models import Run, RunDispute
from runs.states import MoneyState

log = structlog.get_logger("dpp.runs")

REASON_LENGTH_MAX: Final = 200
AFTER: Final = {
    RunDispute.Step.OPENED: MoneyState.DISPUTED,
    RunDispute.Step.UPHELD: MoneyState.SETTLED,
    RunDispute.Step.REFUNDED: MoneyState.REFUNDED,
}


def open_dispute(*, run_id: uuid.UUID, reason: str, actor: str) -> Run | Refusal:
    """SETTLED → DISPUTED. Asked again it is refused: the first asker's reason stands."""
    run = _run_to_dispute_or_refusal(run_id, reason)
    if isinstance(run, Refusal):
        return run
    if run.money_state != MoneyState.SETTLED:
        return Refusal(
            ReasonCode.CONFLICT, f"its money is {run.money_state}; only a settled charge is disputed", "run_id"
        )
    with transaction.atomic():
        moved = transitions.dispute(run_id=run_id, version=run.version, actor=actor)
        if moved is LOST:
            return _dispute_race_refusal(run)
        _record_dispute_step(run, moved, RunDispute.Step.OPENED, reason, actor)
    return Run.objects.get(run_id=run_id)


def uphold_dispute(*, run_id: uuid.UUID, reason: str, actor: str) -> Run | Refusal:
    """DISPUTED → SETTLED: the charge was right."""
    run = _run_to_dispute_or_refusal(run_id, reason, disputed=True)
    if isinstance(run, Refusal):
        return run
    with transaction.atomic():
        moved = transitions.resolve(run_id=run_id, version=run.version, refunded=False, actor=actor)
        if moved is LOST:
            return _dispute_race_refusal(run)
        _record_dispute_step(run, moved, RunDispute.Step.UPHELD, reason, actor)
    return Run.objects.get(run_id=run_id)


def refund_dispute(*, run_id: uuid.UUID, reason: str, actor: str, approved_by: str | None = None) -> Run | Refusal:
    """DISPUTED → REFUNDED, and the charge goes back by an ADJUST entry.

    Key: the run; its ADJUST carries the reference `dispute:{run_id}`, which the ledger takes once. Order: read the
    epoch; one transaction moves the row and writes entry and pending credit; then the credit is brought to the
    balance. Dying after the transaction leaves the pending credit to the replay, which brings it within two minutes.
    Above the solo limit it takes `approved_by`, the second person of a ticket. What the tenant's money has no room for
    is refused: Redis could not count it, and no rebuild could bring the tenant back.
    """
    run = _run_to_dispute_or_refusal(run_id, reason, disputed=True)
    if isinstance(run, Refusal):
        return run
    # What a failure of ours cost may have gone back when the run ended; it does not go back twice.
    charge_micros = (run.actual_cost_usd_micros or 0) - ledger.refund_of(run.tenant_id, run_id)
    alone = solo_limit.solo_limit_fault(
        charge_micros, field="run_id", ticket_type="DISPUTE_REFUND", approved_by=approved_by
    )
    if alone is not None:
        return alone
    epoch = entries.open_epoch()
    # Durable: inside someone's transaction the balance could rise for an entry that is rolled back.
    with transaction.atomic(durable=True):
        moved = transitions.resolve(run_id=run_id, version=run.version, refunded=True, actor=actor)
        if moved is LOST:
            return _dispute_race_refusal(run)
        if charge_micros:
            if not ledger.has_room(run.tenant_id, charge_micros):
                transaction.set_rollback(True)
                return _no_room_refusal(run)
            lineage_id, spend_day = ledger.counted_charge_of(run_id)
            ledger.append_credit(
                tenant_id=run.tenant_id,
                run_id=run_id,
                kind=LedgerEntry.Kind.ADJUST,
                amount_micros=charge_micros,
                reference=f"dispute:{run_id}",
                reason=reason,
                actor=actor,
                lineage_id=lineage_id,
                spend_day=spend_day,
            )
        _record_dispute_step(run, moved, RunDispute.Step.REFUNDED, reason, actor)
    for pending in PendingCredit.objects.select_related("entry").filter(entry__run_id=run_id):
        entries.bring_to_balance(pending, epoch=epoch)
    return Run.objects.get(run_id=run_id)


def _run_to_dispute_or_refusal(run_id: uuid.UUID, reason: str, *, disputed: bool = False) -> Run | Refusal:
    if not reason.strip() or len(reason) > REASON_LENGTH_MAX or not reason.isprintable():
        return invalid("reason", f"say why, in 1 to {REASON_LENGTH_MAX} printable characters")
    run = Run.objects.filter(run_id=run_id).first()
    if run is None:
        return Refusal(ReasonCode.NOT_FOUND, "there is no such run", "run_id")
    if disputed and run.money_state != MoneyState.DISPUTED:
        return Refusal(ReasonCode.CONFLICT, f"its money is {run.money_state}; open a dispute first", "run_id")
    return run


def _dispute_race_refusal(run: Run) -> Refusal:
    return Refusal(ReasonCode.CONFLICT, f"run {run.run_id} changed meanwhile; look at it and decide again", "run_id")


def _no_room_refusal(run: Run) -> Refusal:
    said = f"with its charge back the money of {run.tenant_id} would pass {MAX_MICROS} micros; adjust it down first"
    return Refusal(ReasonCode.CONFLICT, said, "run_id")


def _record_dispute_step(run: Run, moved: Moved, step: RunDispute.Step, reason: str, actor: str) -> None:
    RunDispute.objects.create(run_id=run.run_id, version=moved.version, step=step, actor=actor, reason=reason)
    trail.record_in_trail(
        f"dispute {step.value.lower()}",
        actor=actor,
        subject=f"run {run.run_id}",
        tenant_id=run.tenant_id,
        before={"money_state": run.money_state, "charge_usd_micros": run.actual_cost_usd_micros},
        after={"money_state": AFTER[step]},
        reason=reason,
    )
    transaction.on_commit(
        partial(
            log.info,
            "run dispute",
            step=step.value,
            run_id=str(run.run_id),
            tenant_id=run.tenant_id,
            charge_usd_micros=run.actual_cost_usd_micros,
            actor=actor,
        )
    )
