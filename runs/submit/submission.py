"""`POST /v1/runs` as a use case: from a checked request to a run that is held, queued and known by its key.

Idempotency key: (tenant, Idempotency-Key); the unique index decides, the row is the truth. The order, and what a death
after each step leaves (docs/concurrency.md has the same windows with their tests):

    open the door   rate, lock, mapping, glance at the balance, one trip     a lock that lapses in 5 s
    accept          INSERT row and inputs: QUEUED, money NONE                a row nobody sees; a retry resumes it, the
                                                                             sweep of abandoned submits ends it
    hold            the money, one trip                                      the same, and its refund finds the hold
    reserve         CAS to money RESERVED                                    a good run without a message: the requeuer
    close the door  mapping and lock, one trip                               the same; a retry is answered from the row
    send            one message                                              nothing: the run is under way

A handler may be slow and its lock lapse: then a second one resumes the row by compare-and-set, and the first one loses
its next step, reads again and answers what it finds. A failed send may have been taken: it is a claim like any other
(DPP-09); a submit that loses the claim finds the run started.
"""

from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

import structlog

from budget import services as money
from budget.money import format_usd
from budget.outcomes import AlreadyHeld, AskAgain, Held, Insufficient, RunClosed, Unavailable
from dpp_project.aws.sqs_sender import SendFailed
from dpp_project.reasons import ReasonCode
from runs import run_ids, transitions
from runs.claims import LOST, Seen
from runs.finish.finalization import Committed, finish
from runs.intents import Intent
from runs.models import Run
from runs.packs import registry
from runs.reads import for_tenant
from runs.reads.for_budget import created_at_ms
from runs.states import MoneyState, Stage, Status
from runs.submit import key_lock, wake_worker
from runs.submit.key_lock import Opening
from runs.submit.receipt import RunReceipt, receipt, receipt_of
from runs.submit.request_body import RunCreateRequest
from runs.submit.request_hash import Payload
from runs.submit.wake_worker import Wakeup
from runs.transitions import FREES_ITS_KEY, Accepted

log = structlog.get_logger("dpp.submit")

ACTOR: Final = "submit"
TURNS: Final = 3
RETRY_SECONDS: Final = 1
RETRY_MONEY_SECONDS: Final = 2
RETRY_ENGINE_SECONDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A request that has been checked, with everything that identifies it."""

    tenant_id: str
    key: str
    request: RunCreateRequest
    payload: Payload
    trace_id: str | None
    may_start: bool
    """False while an operator has turned off the tenant's new runs; what stands already is answered all the same."""

    @property
    def price_micros(self) -> int:
        return self.request.reservation.max_cost_micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The run stands; `replayed` if it stood before."""

    receipt: RunReceipt
    version: int
    replayed: bool
    reserved_micros: int
    used_micros: int = 0
    tokens: int = 0
    balance_micros: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """No run stands for this request, or not yet."""

    reason: ReasonCode
    detail: str
    retry_after_seconds: int | None = None
    run_id: UUID | None = None
    balance_micros: int | None = None


Answer = Submitted | Refusal

IN_PROGRESS: Final = Refusal(
    reason=ReasonCode.IDEMPOTENCY_IN_PROGRESS,
    detail="A request with this Idempotency-Key is being handled, or its run is being ended.",
    retry_after_seconds=RETRY_SECONDS,
)
EXECUTION_DISABLED: Final = Refusal(
    reason=ReasonCode.EXECUTION_DISABLED, detail="New runs of this tenant are turned off by an operator."
)
ENGINE_UNAVAILABLE: Final = Refusal(
    reason=ReasonCode.ENGINE_UNAVAILABLE,
    detail="This pack lacks its engine or a file of it at the moment. Nothing was held.",
    retry_after_seconds=RETRY_ENGINE_SECONDS,
)
BUDGET_UNAVAILABLE: Final = Refusal(
    reason=ReasonCode.BUDGET_UNAVAILABLE,
    detail="Money cannot be held at the moment.",
    retry_after_seconds=RETRY_MONEY_SECONDS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row on its way to RESERVED, as this handler knows it."""

    run_id: UUID
    tenant_id: str
    version: int
    created_at_ms: int
    trace_id: str | None
    receipt: RunReceipt


def submit(asked: Submission, opening: Opening) -> Answer:
    """See the module. Raises what the database raises; a retry with the same key goes on from there."""
    handler = _Handler(asked, opening)
    try:
        return handler.answer()
    finally:
        handler.leave()


class _Handler:
    """One request. Its methods stand in the order of the steps."""

    def __init__(self, asked: Submission, opening: Opening) -> None:
        self._asked = asked
        self._opening = opening
        self._owns_lock = opening.locked

    def answer(self) -> Answer:
        found = self._standing() or self._made()
        return self._hold(found) if isinstance(found, _Row) else found

    def leave(self) -> None:
        if self._owns_lock:
            key_lock.release(self._opening.door)

    # Is there a run already?

    def _standing(self) -> Answer | _Row | None:
        """By the mapping; a mapping whose row has given up the key counts for nothing."""
        run_id = self._opening.mapped_run_id
        if run_id is not None and (run := self._read(run_id=run_id)) is not None:
            return self._judge(run)
        return None if self._opening.locked else IN_PROGRESS

    def _made(self) -> Answer | _Row:
        """A new row, or the one that has the key. Where the hold must fail, no row is made to be dropped again."""
        refusal = self._refusal_at_a_glance()
        if refusal is not None:
            run = self._read()
            return refusal if run is None else self._judge(run)
        asked, reservation = self._asked, self._asked.request.reservation
        run_id = run_ids.new()
        accepted = transitions.accept(
            run_id=run_id,
            tenant_id=asked.tenant_id,
            pack_type=asked.request.pack_type,
            profile_version=asked.request.meta.profile_version,
            idempotency_key=asked.key,
            payload_hash=asked.payload.sha256,
            reserved_micros=asked.price_micros,
            inputs=asked.payload.inputs,
            artifacts=asked.payload.artifacts,
            timebox_sec=reservation.timebox_sec,
            min_reliability_score=reservation.min_reliability_score,
            inline=bool(asked.request.options.inline),
            trace_id=asked.trace_id,
            actor=ACTOR,
        )
        if not isinstance(accepted, Accepted):
            run = self._read(run_id=accepted.run_id)
            return IN_PROGRESS if run is None else self._judge(run)
        return _Row(
            run_id=run_id,
            tenant_id=asked.tenant_id,
            version=0,
            created_at_ms=created_at_ms(accepted.created_at),
            trace_id=asked.trace_id,
            receipt=receipt(
                run_id=run_id,
                reserved_micros=asked.price_micros,
                timebox_sec=reservation.timebox_sec,
                min_reliability_score=reservation.min_reliability_score,
                trace_id=asked.trace_id,
                profile_version=asked.request.meta.profile_version,
            ),
        )

    def _refusal_at_a_glance(self) -> Refusal | None:
        if not self._asked.may_start:
            return EXECUTION_DISABLED
        if registry.get(self._asked.request.pack_type).missing():
            return ENGINE_UNAVAILABLE
        seen = self._opening.money
        if not seen.mark.is_open():
            return BUDGET_UNAVAILABLE
        if seen.balance_micros is not None and seen.balance_micros < self._asked.price_micros:
            return self._drained(seen.balance_micros)
        return None

    def _judge(self, run: Run) -> Answer | _Row:
        """What a row that has this key means for this request."""
        if run.payload_hash != self._asked.payload.sha256:
            return Refusal(
                reason=ReasonCode.IDEMPOTENCY_CONFLICT,
                detail="This Idempotency-Key stands for another request.",
                run_id=run.run_id,
                balance_micros=self._opening.money.balance_micros,
            )
        if run.finalize_stage is None and run.money_state == MoneyState.NONE:
            return self._resumed(run)
        if run.finalize_stage == Stage.CLAIMED and run.intent_reason_code in FREES_ITS_KEY:
            return IN_PROGRESS
        if self._opening.mapped_run_id != run.run_id:
            self._write_mapping(run_id=run.run_id, made_at_ms=created_at_ms(run.created_at))
        return Submitted(
            receipt=receipt_of(run),
            version=run.version,
            replayed=True,
            reserved_micros=run.reservation_max_cost_usd_micros,
            used_micros=run.actual_cost_usd_micros or 0,
            tokens=run.tokens_consumed if run.finalize_stage == Stage.COMMITTED else 0,
            balance_micros=self._opening.money.balance_micros,
        )

    def _resumed(self, run: Run) -> Answer | _Row:
        """Take over the row of a handler that died, or is slow, before it marked its money."""
        if not self._asked.may_start:
            return EXECUTION_DISABLED
        if not self._opening.locked:
            return IN_PROGRESS
        resumed = transitions.resume(run_id=run.run_id, version=run.version, actor=ACTOR)
        if resumed is LOST:
            return IN_PROGRESS
        return _Row(
            run_id=run.run_id,
            tenant_id=run.tenant_id,
            version=resumed.version,
            created_at_ms=created_at_ms(run.created_at),
            trace_id=run.trace_id,
            receipt=receipt_of(run),
        )

    # From the row to the message.

    def _hold(self, row: _Row) -> Answer:
        """Hold the price and mark it. A rebuild, or another handler, may move the row meanwhile: then look again."""
        for _ in range(TURNS):
            outcome = money.hold(
                tenant_id=self._asked.tenant_id,
                run_id=str(row.run_id),
                reserved_micros=self._asked.price_micros,
                created_at_ms=row.created_at_ms,
            )
            match outcome:
                case Held() | AlreadyHeld():
                    marked = transitions.reserve(run_id=row.run_id, version=row.version, actor=ACTOR)
                    if marked is not LOST:
                        left = outcome.balance_micros if isinstance(outcome, Held) else None
                        return self._announce(replace(row, version=marked.version), balance_micros=left)
                case Insufficient(balance_micros):
                    if transitions.drop(run_id=row.run_id, version=row.version) is not LOST:
                        # A hold that is still on its way to this row finds a tombstone, or is found and given back.
                        money.refund(tenant_id=self._asked.tenant_id, run_id=str(row.run_id))
                        return self._drained(balance_micros)
                case RunClosed():
                    return IN_PROGRESS
                case AskAgain():
                    pass  # the rebuild has raised the row's version
                case Unavailable():
                    return BUDGET_UNAVAILABLE
            run = self._read(run_id=row.run_id)
            found = IN_PROGRESS if run is None else self._judge(run)
            if not isinstance(found, _Row):
                return found
            row = found
        return IN_PROGRESS

    def _announce(self, row: _Row, *, balance_micros: int | None) -> Answer:
        """The row is RESERVED: make it known by its key, and wake a worker."""
        self._write_mapping(run_id=row.run_id, made_at_ms=row.created_at_ms)
        try:
            wake_worker.send(
                Wakeup(
                    run_id=row.run_id,
                    tenant_id=self._asked.tenant_id,
                    pack_type=self._asked.request.pack_type,
                    trace_id=row.trace_id,
                )
            )
        except SendFailed as error:
            log.warning("run not queued", run_id=str(row.run_id), exc_info=error)
            if (refusal := self._take_back(row)) is not None:
                return refusal
        return Submitted(
            receipt=row.receipt,
            version=row.version,
            replayed=False,
            reserved_micros=self._asked.price_micros,
            balance_micros=self._opening.money.balance_micros if balance_micros is None else balance_micros,
        )

    def _take_back(self, row: _Row) -> Refusal | None:
        """The message may be in the queue all the same, so the run is claimed before its money moves (DPP-09).

        None: a worker has started it, or someone ended it; it stands. Dying after the claim leaves its intent to the
        reconciler, and the key answers "in progress" until the run has ended.
        """
        seen: Seen = row
        intent = Intent.full_refund(reason=ReasonCode.QUEUE_ENQUEUE_FAILED)
        for _ in range(TURNS):
            claimed = transitions.claim_unsent(run=seen, intent=intent, actor=ACTOR)
            if claimed is not LOST:
                if isinstance(finish(claimed.claim), Committed):
                    key_lock.forget(self._opening.door)
                return Refusal(
                    reason=ReasonCode.QUEUE_ENQUEUE_FAILED,
                    detail="The run could not be queued; what was held goes back in full.",
                    retry_after_seconds=RETRY_MONEY_SECONDS,
                    run_id=row.run_id,
                    balance_micros=self._opening.money.balance_micros,
                )
            run = self._read(run_id=row.run_id)
            if run is None or run.status != Status.QUEUED or run.finalize_stage is not None:
                return None
            seen = run
        return None

    # What several steps need.

    def _read(self, *, run_id: UUID | None = None) -> Run | None:
        """The tenant's row that has this key, and is the one meant."""
        return for_tenant.of_key(self._asked.tenant_id, self._asked.key, run_id=run_id)

    def _write_mapping(self, *, run_id: UUID, made_at_ms: int) -> None:
        if self._owns_lock:
            self._owns_lock = False
            key_lock.write_mapping(
                self._opening.door,
                run_id=run_id,
                payload_hash=self._asked.payload.sha256,
                created_at_ms=made_at_ms,
            )

    def _drained(self, balance_micros: int) -> Refusal:
        price, balance = format_usd(self._asked.price_micros), format_usd(balance_micros)
        return Refusal(
            reason=ReasonCode.BUDGET_DRAINED,
            detail=f"The run may cost {price} USD, and {balance} USD are left to hold.",
            balance_micros=balance_micros,
        )
