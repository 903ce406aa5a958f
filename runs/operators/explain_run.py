"""A stored run told in words, for the command and the admin: the explanation, and the timeline that led there."""

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from dpp_project.heartbeats.models import ProcessHeartbeat
from dpp_project.heartbeats.pulse import STALE_SECONDS
from runs import turns
from runs.models import Run, RunDispute, RunHistory, RunTurn
from runs.operators import explanation
from runs.operators.explanation import Explanation, Facts
from runs.packs import registry
from runs.states import MoneyState, Stage, Status
from runs.submit.wake_worker import Lane

BEFORE_MOST: Final = 1_000


def explain(run: Run, *, now: datetime) -> Explanation:
    told = explanation.describe_run(_run_facts_to_explain(run, now=now), now=now)
    return replace(told, stands=f"{told.stands}{_other_prices(run)}")


def _other_prices(run: Run) -> str:
    """Until a claim has decided the charge. The pack is the one that this process has installed."""
    if run.finalize_stage is not None or run.price_version is None:
        return ""
    try:
        charged_by = registry.pack_named(run.pack_type).price_list(run.price_version).version
    except registry.UnknownPack:
        return ""
    if charged_by == run.price_version:
        return ""
    return (
        f" The price list it was accepted under, version {run.price_version}, is gone:"
        f" it is charged by version {charged_by}, at most what is held."
    )


def _run_facts_to_explain(run: Run, *, now: datetime) -> Facts:
    turn = RunTurn.objects.filter(run_id=run.run_id).first()
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
        in_line=_own_message(run) if turn is None else _in_line(turn),
        kept_back_by=None if turn is None else _KEPT_BACK_BY.get(turn.stands),
    )


_KEPT_BACK_BY: Final = {RunTurn.Stands.PARKED.value: "key", RunTurn.Stands.LIMITED.value: "tenant"}


def _own_message(run: Run) -> str | None:
    """Without a turn: one of its tenant's first few, in the express queue, or one of the release before."""
    if run.dead_lettered_at is not None or Lane.EXPRESS.url == Lane.RUNS.url:
        return None
    return "a worker to receive its own message, in the express queue; it waits for no turn."


def _in_line(turn: RunTurn) -> str | None:
    if turn.stands == RunTurn.Stands.AT_WORK:
        return None
    if turn.stands == RunTurn.Stands.PARKED and turn.concurrency_key is not None:
        at_work = turns.at_work(turn.tenant_id, turn.concurrency_key)
        return f"a place of its concurrency key {turn.concurrency_key}, of which {at_work} are at work."
    if turn.stands == RunTurn.Stands.LIMITED:
        at_work, room = turns.at_work_of_tenant(turn.tenant_id), turns.room_of_tenant(turn.tenant_id)
        return f"a place among its tenant's runs at work, of which there are {at_work} and may be {at_work + room}."
    before = turns.turns_before(turn, most=BEFORE_MOST)
    told = f"{BEFORE_MOST:,} or more" if before == BEFORE_MOST else f"{before:,}"
    return f"its turn in the queue of runs: {told} are before it; by priority another of its tenant's may go first."


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


def run_timeline(run: Run) -> list[RunHistory]:
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
            for step in run_timeline(run)
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
        *(f"  {step.actor} ({explanation.explanation_time(step.at, now=now)}): {step.does}" for step in told.next),
        "",
        "What happened:",
    ]
    said += [
        f"  {step.at:%Y-%m-%d %H:%M:%S}  v{step.version}  {state_in_words(step.status, step.money_state, step.stage)}"
        f"  by {step.actor}"
        for step in run_timeline(run)
    ]
    said += [
        f"  {step.at:%Y-%m-%d %H:%M:%S}  dispute {step.step} by {step.actor}: {step.reason}" for step in _disputes(run)
    ]
    return said


def _disputes(run: Run) -> list[RunDispute]:
    return list(RunDispute.objects.filter(run_id=run.run_id).order_by("version"))
