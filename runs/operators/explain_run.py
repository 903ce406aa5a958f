"""A stored run told in words, for the command and the admin: the explanation, and the timeline that led there."""

from datetime import datetime
from typing import Any

from dpp_project.heartbeats.models import ProcessHeartbeat
from dpp_project.heartbeats.pulse import STALE_SECONDS
from runs.models import Run, RunDispute, RunHistory
from runs.operators import explanation
from runs.operators.explanation import Explanation, Facts
from runs.states import MoneyState, Stage, Status


def explain(run: Run, *, now: datetime) -> Explanation:
    return explanation.describe(_facts(run, now=now), now=now)


def _facts(run: Run, *, now: datetime) -> Facts:
    return Facts(
        status=Status(run.status),
        money_state=MoneyState(run.money_state),
        stage=Stage(run.finalize_stage) if run.finalize_stage else None,
        reserved_micros=run.reservation_max_cost_usd_micros,
        charge_micros=run.actual_cost_usd_micros,
        intent_status=run.intent_status,
        intent_charge_micros=run.intent_charge_usd_micros,
        intent_reason=run.intent_reason_code,
        reason=run.last_error_reason_code,
        last_actor=run.last_actor,
        created_at=run.created_at,
        updated_at=run.updated_at,
        lease_expires_at=run.lease_expires_at,
        worker=_worker(run, now=now),
        claimed_at=run.finalize_claimed_at,
        next_send_at=run.next_send_at,
        send_count=run.send_count,
        dead_lettered_at=run.dead_lettered_at,
        retention_until=run.retention_until,
    )


def _worker(run: Run, *, now: datetime) -> str | None:
    """The process that holds the lease, as its heartbeat tells; the lease's token names it."""
    if run.status != Status.PROCESSING or run.lease_token is None:
        return None
    found = ProcessHeartbeat.objects.filter(key=run.lease_token.partition("-")[0]).first()
    if found is None:
        return None
    silent = round((now - found.beat_at).total_seconds())
    heard = f"stale, last heard of {silent} s ago" if silent > STALE_SECONDS else "alive"
    return f"pid {found.pid} at {found.host}, {heard}"


def timeline(run: Run) -> list[RunHistory]:
    return list(RunHistory.objects.filter(run_id=run.run_id).order_by("version"))


def state_in_words(status: str, money_state: str, stage: str | None) -> str:
    return f"{status} {money_state} {stage or ''}".rstrip()


def explanation_document(run: Run, told: Explanation) -> dict[str, Any]:
    return {
        "run_id": str(run.run_id),
        "tenant_id": run.tenant_id,
        "pack_type": run.pack_type,
        "trace_id": run.trace_id,
        "status": run.status,
        "money_state": run.money_state,
        "finalize_stage": run.finalize_stage,
        "version": run.version,
        "stands": told.stands,
        "waits_for": told.waits_for,
        "next": [
            {"actor": step.actor, "at": step.at.isoformat() if step.at else None, "does": step.does}
            for step in told.next
        ],
        "overdue": told.overdue,
        "timeline": [
            {
                "version": step.version,
                "at": step.at.isoformat(),
                "actor": step.actor,
                "status": step.status,
                "money_state": step.money_state,
                "stage": step.stage,
            }
            for step in timeline(run)
        ],
        "disputes": [
            {"at": step.at.isoformat(), "step": step.step, "actor": step.actor, "reason": step.reason}
            for step in _disputes(run)
        ],
    }


def explanation_lines(run: Run, told: Explanation, *, now: datetime) -> list[str]:
    said = [
        f"Run {run.run_id} of {run.tenant_id}, pack {run.pack_type}, trace {run.trace_id or 'none'}",
        f"{state_in_words(run.status, run.money_state, run.finalize_stage)}, version {run.version}",
        "",
        told.stands,
        f"It waits for {told.waits_for}",
        "",
        "Who acts next:",
        *(f"  {step.actor} ({explanation.when(step.at, now=now)}): {step.does}" for step in told.next),
        "",
        "What happened:",
    ]
    said += [
        f"  {step.at:%Y-%m-%d %H:%M:%S}  v{step.version}  {state_in_words(step.status, step.money_state, step.stage)}"
        f"  by {step.actor}"
        for step in timeline(run)
    ]
    said += [
        f"  {step.at:%Y-%m-%d %H:%M:%S}  dispute {step.step} by {step.actor}: {step.reason}" for step in _disputes(run)
    ]
    return said


def _disputes(run: Run) -> list[RunDispute]:
    return list(RunDispute.objects.filter(run_id=run.run_id).order_by("version"))
