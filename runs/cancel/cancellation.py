"""The owner, or an operator, ends a run (DPP-27): everything back while it is queued, the minimum fee once a worker
has it.

Order: claim by compare-and-set, tell the worker by deleting its lease in Redis, move the money, commit. Of start,
finish and cancel one wins the row; a canceler that loses reads again and decides by what it finds. Dying after the
claim leaves its intent to the reconciler; the worker finds its lease gone within 2 s, or, without Redis, at its next
heartbeat, and stops the pack without touching money or pointers.

Then the next of its concurrency key, or of a tenant with a limit, is woken: the end is what makes room, and its pack
has up to those 2 s to stop. Dying before that, or money that cannot move, leaves the waking to the requeuer's minute.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Subquery
from redis import RedisError

from dpp_project.audit import trail
from dpp_project.reasons import ReasonCode
from dpp_project.stores import redis
from runs import transitions
from runs.claims import LOST, Claimed, Lost
from runs.finish.finalization import Committed, Unfinished, finish_claim
from runs.intents import Intent
from runs.lease_key import lease_key
from runs.models import Run, RunTurn
from runs.reads import for_tenant
from runs.states import Status
from runs.submit import next_of_key
from tenants.models import Tenant

log = structlog.get_logger("dpp.run")

TURNS: Final = 3


@dataclass(frozen=True, slots=True)
class Canceled:
    """The claim is won. `ended` tells whether the money has moved already, or will by the reconciler."""

    run: Run
    ended: bool


@dataclass(frozen=True, slots=True)
class NotCancelable:
    """The run is finishing or has ended; nothing was changed."""

    run: Run


def cancel_run(
    *, tenant_id: str, run_id: UUID, actor: str, reason: ReasonCode = ReasonCode.CANCELED_BY_OWNER
) -> Canceled | NotCancelable | None:
    """See the module. None: the tenant has no such run. Asked again, it finds the run ended."""
    run: Run | None = None
    for _ in range(TURNS):
        run = for_tenant.run_of_tenant(tenant_id, run_id)
        if run is None:
            return None
        if run.finalize_stage is not None:
            return NotCancelable(run)
        line = _line_of(run)
        claimed = _cancellation_claim(run, reason, actor)
        if claimed is not LOST:
            if run.status == Status.PROCESSING:
                _tell_worker(run_id)
            finished = finish_claim(claimed.claim)
            _wake_next(line)
            how = "committed" if isinstance(finished, Committed) else finished.value
            log.info("run canceled", run_id=str(run_id), tenant_id=tenant_id, finished=how)
            return Canceled(
                for_tenant.run_of_tenant(tenant_id, run_id) or run, ended=finished is not Unfinished.WAITING
            )
    assert run is not None  # noqa: S101  it was read in every turn
    return NotCancelable(run)  # it moved under us each time: start and finish have been faster


@dataclass(frozen=True, slots=True)
class _Line:
    tenant_id: str
    concurrency_key: str | None
    has_limit: bool


def _line_of(run: Run) -> _Line:
    """Read before the claim, which takes a run that waits out of it."""
    key = RunTurn.objects.filter(run_id=run.run_id).values("concurrency_key")
    tenant = Tenant.objects.filter(tenant_id=run.tenant_id)
    most, concurrency_key = tenant.values_list("most_at_work", Subquery(key)).get()
    return _Line(run.tenant_id, concurrency_key, has_limit=most is not None)


def _wake_next(line: _Line) -> None:
    """One that was only woken, and is canceled in the line, gives its place back as well."""
    if line.concurrency_key is not None:
        next_of_key.wake_next_if_possible(line.tenant_id, line.concurrency_key)
    if line.has_limit:
        next_of_key.wake_limited_if_possible(line.tenant_id)


def _cancellation_claim(run: Run, reason: ReasonCode, actor: str) -> Claimed | Lost:
    """An operator's cancel is entered into the audit trail with its claim; an owner's is in the run's own history."""
    intent = _intent(run, reason)
    if reason is not ReasonCode.CANCELED_BY_OPERATOR:
        return transitions.claim_canceled(run=run, intent=intent, actor=actor)
    with transaction.atomic():
        claimed = transitions.claim_canceled(run=run, intent=intent, actor=actor)
        if claimed is not LOST:
            trail.record_in_trail(
                "run canceled",
                actor=actor,
                subject=f"run {run.run_id}",
                tenant_id=run.tenant_id,
                before={"status": run.status},
                after={"status": intent.status, "charge_usd_micros": intent.charge_micros},
            )
    return claimed


def _intent(run: Run, reason: ReasonCode) -> Intent:
    if run.status == Status.QUEUED:
        return Intent.full_refund(reason=reason)
    return Intent.minimum_fee(
        minimum_fee_micros=run.minimum_fee_usd_micros,
        reserved_micros=run.reservation_max_cost_usd_micros,
        reason=reason,
    )


def _tell_worker(run_id: UUID) -> None:
    """The lease in Redis is the signal it watches each second."""
    try:
        redis.redis_client().delete(lease_key(run_id))
    except RedisError as error:
        log.warning("worker not told, it stops at its next heartbeat", run_id=str(run_id), exc_info=error)
