"""Is there a run of this key already? One that stands is answered; a new one, or one left half way, is a row still."""

from dataclasses import dataclass
from datetime import date
from typing import Final
from uuid import UUID

from redis import RedisError

from budget.caps import alerts, glance
from budget.caps.figures import CapFigures
from budget.outcomes import CapReached
from runs import ports, run_ids, transitions, turns
from runs.bucket import uploads
from runs.claims import LOST, Accepted
from runs.intents import FREES_ITS_KEY
from runs.models import Run
from runs.packs import registry
from runs.packs.pack import CommandAsked
from runs.reads import for_tenant
from runs.reads.for_budget import created_at_ms
from runs.states import MoneyState, Stage
from runs.submissions import Submission
from runs.submit import answer, key_lock, spend_dates
from runs.submit.answer import IN_PROGRESS, SubmitAnswer, SubmitRefusal, Submitted
from runs.submit.key_lock import Found, KeyLock
from runs.submit.run_receipt import RunReceipt, run_receipt, run_receipt_of

ACTOR: Final = "submit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row on its way to RESERVED and to the queue, as this handler knows it."""

    run_id: UUID
    tenant_id: str
    version: int
    created_at_ms: int
    trace_id: str | None
    receipt: RunReceipt
    lineage_id: UUID | None
    spend_day: date | None
    """The row's own: a retry of a key that was rotated meanwhile counts where the row says."""


class RunOfKey:
    """The run that a submit's key stands for; every reading of it by one handler goes this way."""

    def __init__(self, asked: Submission, lock: KeyLock, found: Found) -> None:
        self._asked = asked
        self._lock = lock
        self._found = found

    def first(self) -> SubmitAnswer | Row:
        """By the mapping; else a new row, or the one that has the key.

        A mapping whose row has given up the key counts for nothing. Where the hold must fail, no row is made to be
        dropped again.
        """
        mapped = self._found.mapped_run_id
        if mapped is not None and (run := self.read(mapped)) is not None:
            return self._judged(run)
        if not self._found.locked:
            return IN_PROGRESS
        refusal = self._refusal_at_a_glance()
        if refusal is not None:
            run = self.read()
            return refusal if run is None else self._judged(run)
        return self._capped() or self._accepted()

    def again(self, run_id: UUID) -> SubmitAnswer | Row:
        """After a step was lost: what has become of the row."""
        run = self.read(run_id)
        return IN_PROGRESS if run is None else self._judged(run)

    def read(self, run_id: UUID | None = None) -> Run | None:
        """The tenant's row that has this key, and is the one meant."""
        return for_tenant.of_key(self._asked.tenant_id, self._asked.idempotency_key, run_id=run_id)

    def map(self, run_id: UUID, *, made_at_ms: int) -> None:
        """Make the run known by its key, which gives the lock back. A handler without the lock leaves it."""
        if self._lock.held:
            key_lock.write_mapping(
                self._lock, run_id=run_id, payload_hash=self._asked.payload_hash, created_at_ms=made_at_ms
            )

    def _refusal_at_a_glance(self) -> SubmitRefusal | None:
        if not self._asked.may_start:
            return answer.EXECUTION_DISABLED
        pack = registry.pack_named(self._asked.pack_type)
        if pack.missing():
            return answer.ENGINE_UNAVAILABLE
        seen, price_micros = self._found.money, self._asked.reserved_micros
        if not seen.mark.is_open():
            return answer.BUDGET_UNAVAILABLE
        if seen.balance_micros is not None and seen.balance_micros < price_micros:
            return answer.submit_drained(price_micros=price_micros, balance_micros=seen.balance_micros)
        absent = uploads.first_missing(tenant_id=self._asked.tenant_id, keys=pack.uploads(self._asked.inputs))
        if absent is not None:
            return answer.upload_missing(absent)
        return None if pack.command is None else self._sleeping(pack.command(dict(self._asked.inputs)))

    def _sleeping(self, command: CommandAsked) -> SubmitRefusal | None:
        """A workspace that sleeps is woken by this. It may fall asleep again before the worker comes."""
        if not self._asked.may_use_workspaces:
            return answer.workspaces_scope_missing()
        ready = ports.registered_workspaces().ready(tenant_id=self._asked.tenant_id, workspace_id=command.workspace_id)
        match ready:
            case ports.Waking(seconds):
                return answer.workspace_waking(seconds)
            case ports.NotUsable(detail):
                return answer.workspace_unfit(detail)
        return None

    def _capped(self) -> SubmitAnswer | Row | None:
        """Where the hold would meet a cap. One statement says what day it is and whether the key has a run."""
        asked, caps, price_micros = self._asked, self._found.caps, self._asked.reserved_micros
        if glance.first_full(caps, price_micros=price_micros, day=None, least=asked.least) is None:
            return None
        today, zone, run_id = for_tenant.today_and_run_of_key(asked.tenant_id, asked.idempotency_key)
        if run_id is not None:
            return self.again(run_id)
        reached = glance.first_full(caps, price_micros=price_micros, day=today, least=asked.least)
        if reached is None:
            return None
        tell_refused(asked.tenant_id, asked.lineage_id, reached)
        return cap_refusal(asked, reached, zone=zone, balance_micros=self._found.money.balance_micros)

    def _accepted(self) -> SubmitAnswer | Row:
        asked, run_id = self._asked, run_ids.new_run_id()
        not_before = spend_dates.latest.of(asked.tenant_id)
        turn = self._found.turn
        if turn is None and asked.concurrency_key is not None:
            try:
                turn = turns.draw_turn(tenant_id=asked.tenant_id, share_weight=self._found.share_weight)
            except RedisError:
                return answer.BUDGET_UNAVAILABLE  # it could hold no money, either
        accepted = transitions.accept(run_id=run_id, asked=asked, actor=ACTOR, not_before=not_before, fair_pass=turn)
        if not isinstance(accepted, Accepted):
            return self.again(accepted.run_id)
        return Row(
            run_id=run_id,
            tenant_id=asked.tenant_id,
            version=0,
            created_at_ms=created_at_ms(accepted.created_at),
            trace_id=asked.trace_id,
            receipt=run_receipt(run_id, asked),
            lineage_id=asked.lineage_id,
            spend_day=accepted.spend_day,
        )

    def _judged(self, run: Run) -> SubmitAnswer | Row:
        """What a row that has this key means for this request."""
        seen = self._found.money
        if run.payload_hash != self._asked.payload_hash:
            return answer.submit_conflict(run.run_id, balance_micros=seen.balance_micros)
        if run.finalize_stage is None and run.money_state == MoneyState.NONE:
            return self._resumed(run)
        if run.finalize_stage == Stage.CLAIMED and run.intent_reason_code in FREES_ITS_KEY:
            return IN_PROGRESS
        if for_tenant.is_gone(run):
            return answer.submit_gone(run.run_id, balance_micros=seen.balance_micros)
        if self._found.mapped_run_id != run.run_id:
            self.map(run.run_id, made_at_ms=created_at_ms(run.created_at))
        return Submitted(
            receipt=run_receipt_of(run),
            version=run.version,
            replayed=True,
            reserved_micros=run.reservation_max_cost_usd_micros,
            used_micros=run.actual_cost_usd_micros or 0,
            tokens=run.tokens_consumed if run.finalize_stage == Stage.COMMITTED else 0,
            balance_micros=seen.balance_micros,
        )

    def _resumed(self, run: Run) -> SubmitAnswer | Row:
        """Take over the row of a handler that died, or is slow, before it marked its money."""
        if not self._asked.may_start:
            return answer.EXECUTION_DISABLED
        if not self._found.locked:
            return IN_PROGRESS
        resumed = transitions.resume(run_id=run.run_id, version=run.version, actor=ACTOR)
        if resumed is LOST:
            return IN_PROGRESS
        return Row(
            run_id=run.run_id,
            tenant_id=run.tenant_id,
            version=resumed.version,
            created_at_ms=created_at_ms(run.created_at),
            trace_id=run.trace_id,
            receipt=run_receipt_of(run),
            lineage_id=run.lineage_id,
            spend_day=run.spend_day,
        )


def tell_refused(tenant_id: str, lineage_id: UUID | None, reached: CapReached) -> None:
    """The tenant's webhooks hear of the first refusal of a window; a row that goes for it goes with the message."""
    whose = None if lineage_id is None else str(lineage_id)
    alerts.tell_full(tenant_id=tenant_id, lineage_id=whose, reached=reached)


def cap_refusal(asked: Submission, reached: CapReached, *, zone: str, balance_micros: int | None) -> SubmitRefusal:
    cap = CapFigures(
        scope=reached.scope,
        period=reached.period,
        day=reached.day,
        zone=zone,
        limit_micros=reached.limit_micros,
        used_micros=reached.used_micros,
        held_micros=reached.held_micros,
    )
    return answer.cap_reached(cap, price_micros=asked.reserved_micros, balance_micros=balance_micros)
