"""From a row at money NONE to a run at a worker's call: hold its price, mark it, map its key, send its message."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Final

import structlog
from django.db import transaction

from budget import services as money
from budget.caps import rows as caps
from budget.outcomes import (
    AlreadyHeld,
    AskAgain,
    CapReached,
    DateBehind,
    Held,
    HoldOutcome,
    Insufficient,
    RunClosed,
    Unavailable,
)
from budget.redis.windows import LeastRevisions
from dpp_project.aws.sqs_sender import SendFailed
from dpp_project.observe import spans
from dpp_project.reasons import ReasonCode
from runs import transitions
from runs.claims import LOST, SeenRun, counted_of
from runs.finish.finalization import Committed, finish_claim
from runs.intents import Intent
from runs.reads import for_tenant
from runs.states import Status
from runs.submissions import Submission
from runs.submit import answer, key_lock, spend_dates, wake_worker
from runs.submit.answer import BUDGET_UNAVAILABLE, IN_PROGRESS, SubmitAnswer, SubmitRefusal, Submitted
from runs.submit.key_lock import Found, KeyLock
from runs.submit.run_of_key import ACTOR, Row, RunOfKey, cap_refusal, tell_refused
from runs.submit.wake_worker import Lane, Wakeup

log = structlog.get_logger("dpp.submit")

TURNS: Final = 3


class HoldAndSend:
    """One handler's way with one row. `found` is what was seen of the tenant's money before."""

    def __init__(self, asked: Submission, lock: KeyLock, runs: RunOfKey, found: Found) -> None:
        self._asked = asked
        self._lock = lock
        self._runs = runs
        self._balance_micros = found.money.balance_micros
        self._lane = Lane.RUNS if asked.concurrency_key else Lane.of(found.open_runs)

    def carry(self, row: Row) -> SubmitAnswer:
        """Hold the price and mark it. A rebuild, or another handler, may move the row meanwhile: then look again."""
        for _ in range(TURNS):
            with spans.within_span("run hold"):
                outcome = money.hold(
                    tenant_id=row.tenant_id,
                    run_id=str(row.run_id),
                    reserved_micros=self._asked.reserved_micros,
                    created_at_ms=row.created_at_ms,
                    counted=counted_of(row),
                    least=self._least(row),
                )
            moved = self._follow(row, outcome)
            if moved is None:
                moved = self._runs.again(row.run_id)
            if not isinstance(moved, Row):
                return moved
            row = moved
        return IN_PROGRESS

    def _least(self, row: Row) -> LeastRevisions:
        """A principal knows the caps of its own key; a retry by another key carries on a row that counts elsewhere."""
        if row.lineage_id == self._asked.lineage_id:
            return self._asked.least
        return LeastRevisions(self._asked.least.tenant, caps.revision_of(row.tenant_id, row.lineage_id))

    def _follow(self, row: Row, outcome: HoldOutcome) -> SubmitAnswer | Row | None:
        """What the hold's outcome comes to: an answer, or the row as it is now to hold again; None where it is lost."""
        match outcome:
            case Held() | AlreadyHeld():
                return self._marked(row, outcome)
            case Insufficient() | CapReached():
                return self._dropped(row, outcome)
            case DateBehind(day):
                spend_dates.latest.note(row.tenant_id, day)
                dated = transitions.resume(run_id=row.run_id, version=row.version, actor=ACTOR, not_before=day)
                return None if dated is LOST else replace(row, version=dated.version, spend_day=day)
            case RunClosed():
                return IN_PROGRESS
            case AskAgain():
                return None  # the rebuild has raised the row's version
            case Unavailable():
                return BUDGET_UNAVAILABLE

    def _marked(self, row: Row, held: Held | AlreadyHeld) -> SubmitAnswer | None:
        marked = transitions.reserve(run_id=row.run_id, version=row.version, actor=ACTOR)
        if marked is LOST:
            return None
        left = held.balance_micros if isinstance(held, Held) else self._balance_micros
        return self._announced(replace(row, version=marked.version), balance_micros=left)

    def _dropped(self, row: Row, refused: Insufficient | CapReached) -> SubmitAnswer | None:
        """402: the row was never. A hold that is still on its way to it finds a tombstone, or is given back."""
        with transaction.atomic() if isinstance(refused, CapReached) else nullcontext():
            if transitions.drop(run_id=row.run_id, version=row.version) is LOST:
                return None
            if isinstance(refused, CapReached):
                tell_refused(row.tenant_id, row.lineage_id, refused)
        money.refund(tenant_id=row.tenant_id, run_id=str(row.run_id), counted=counted_of(row))
        if isinstance(refused, Insufficient):
            return answer.submit_drained(
                price_micros=self._asked.reserved_micros, balance_micros=refused.balance_micros
            )
        zone = for_tenant.zone_of(row.tenant_id)
        return cap_refusal(self._asked, refused, zone=zone, balance_micros=self._balance_micros)

    def _announced(self, row: Row, *, balance_micros: int | None) -> SubmitAnswer:
        """The row is RESERVED: make it known by its key, and wake a worker."""
        self._runs.map(row.run_id, made_at_ms=row.created_at_ms)
        try:
            wakeup = Wakeup(
                run_id=row.run_id,
                tenant_id=row.tenant_id,
                pack_type=self._asked.pack_type,
                trace_id=row.trace_id,
                lane=self._lane,
            )
            with spans.sending_span(row.run_id, row.trace_id):
                wake_worker.send_wakeup(wakeup)
        except SendFailed as error:
            log.warning("run not queued", run_id=str(row.run_id), exc_info=error)
            if (refusal := self._taken_back(row)) is not None:
                return refusal
        return Submitted(
            receipt=row.receipt,
            version=row.version,
            replayed=False,
            reserved_micros=self._asked.reserved_micros,
            balance_micros=balance_micros,
        )

    def _taken_back(self, row: Row) -> SubmitRefusal | None:
        """The message may be in the queue all the same, so the run is claimed before its money moves (DPP-09).

        None: a worker has started it, or someone ended it; it stands. Dying after the claim leaves its intent to the
        reconciler, and the key answers "in progress" until the run has ended.
        """
        seen: SeenRun = row
        intent = Intent.full_refund(reason=ReasonCode.QUEUE_ENQUEUE_FAILED)
        for _ in range(TURNS):
            claimed = transitions.claim_unsent(run=seen, intent=intent, actor=ACTOR)
            if claimed is not LOST:
                if isinstance(finish_claim(claimed.claim), Committed):
                    key_lock.forget_mapping(self._lock)
                return answer.not_queued(row.run_id, balance_micros=self._balance_micros)
            run = self._runs.read(row.run_id)
            if run is None or run.status != Status.QUEUED or run.finalize_stage is not None:
                return None
            seen = run
        return None
