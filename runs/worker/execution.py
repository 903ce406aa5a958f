"""One run at its worker, from the message to the end of the run. (DPP-30 to DPP-37)

    choose    the row and what was sent (starting.py)         nothing is left
    start     CAS to PROCESSING with a lease                  the reaper, when the lease has run out: minimum fee
    lease     the signal in Redis                             the same
    pack      in the box; the keeper renews the lease         the same
    envelope  into the bucket                                 the same, and an object that nobody points to
    claim     CAS with the intent                             the reconciler carries the intent out
    settle    money moves, a receipt stays                    the same; the receipt answers it
    commit    the end and its ledger entries                  nothing: the message repeats and finds the run ended

The right column says who mends what a death leaves there; docs/concurrency.md has each line with its test. A loser, at
the start, the claim or the commit, does nothing further and acknowledges its message. While a dependency is away a
worker waits for it rather than give its run up; how long, the constants say.
"""

import enum
import os
import time
import uuid
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog
from django.db import connections
from pydantic import JsonValue

from dpp_project import clock
from dpp_project.heartbeats import pulse
from dpp_project.observe import spans, tracing
from dpp_project.processes.per_process import PerProcess
from dpp_project.stores.postgres import DATABASE_AWAY
from dpp_project.stores.retry_while_away import Patience
from runs import metrics, ports, transitions
from runs.box.box import Box
from runs.box.outcomes import Done, PackOutcome, Stopped
from runs.box.running import PackRequest
from runs.claims import LOST, Claim, Lease, new_token
from runs.finish.finalization import Committed, Unfinished, finish_claim
from runs.intents import Intent
from runs.models import Run
from runs.packs import registry
from runs.packs.pack import Pack, Reach
from runs.states import Stage
from runs.submit import next_of_key
from runs.worker import leases, starting, store_result
from runs.worker.leases import WakingMessage
from runs.worker.starting import StartedRun
from runs.worker.telling_progress import ProgressOfRun

log = structlog.get_logger("dpp.run")

ACTOR: Final = "worker"
START_PATIENCE_SECONDS: Final = 30.0
"""Shorter than a message's first visibility: waiting here costs none of its three receives."""
CLAIM_PATIENCE_SECONDS: Final = 60.0
FINISH_PATIENCE_SECONDS: Final = 60.0
"""After it the reconciler has the run."""


class End(enum.Enum):
    COMMITTED = "committed"
    NOT_STARTED = "not started"  # started or ended by another; nothing was done
    STOPPED = "stopped"  # the lease was lost while the pack worked; money and pointers are untouched
    CLAIM_LOST = "claim lost"  # another had claimed the run; money and pointers are untouched
    UNCLAIMED = "unclaimed"  # Postgres stayed away; the reaper ends the run
    COMMIT_LOST = "commit lost"  # another finished what this worker had claimed
    WAITING = "waiting"  # claimed, and its money cannot move now; the reconciler comes back to it


def _make_box() -> Box:
    named = [os.environ.get(name, "") for pack in registry.packs_for_sale().values() for name in pack.environment]
    return Box(registry.pack_modules().values(), may_read=[value for value in named if os.path.isabs(value)])  # noqa: PTH117


box = PerProcess(_make_box)


def execute_run(run_id: uuid.UUID, *, message: WakingMessage | None, in_turn: bool = False) -> End:
    """See the module. Key: the run. Raises UnknownRun, UnknownPack, and what the database raises before the start.

    `in_turn`: the message stands for one start, of the run whose turn it is, and `run_id` is the run it was sent for
    (starting.py). A pack that this worker does not know is left for one that does: its message comes again.
    """
    token = f"{pulse.own_key()}-{uuid.uuid4().hex}"
    started = _started(run_id, token, in_turn=in_turn)
    if started is None:
        metrics.STARTS_LOST.inc()
        return End.NOT_STARTED
    end = _end_of_started_run(started, token, message)
    if started.concurrency_key is not None:
        next_of_key.wake_next_if_possible(started.run.tenant_id, started.concurrency_key)
    if started.has_limit:
        next_of_key.wake_limited_if_possible(started.run.tenant_id)
    return end


def _end_of_started_run(started: StartedRun, token: str, message: WakingMessage | None) -> End:
    run = started.run
    lease = Lease(run.run_id, token)
    tracing.bind_trace_id(run.trace_id or tracing.current_trace_id())
    metrics.QUEUE_WAIT_SECONDS.observe((clock.now() - run.created_at).total_seconds())
    _log_execution_event("run started", run, version_before=run.version - 1)
    with spans.working_span(run.run_id, run.trace_id, tenant_id=run.tenant_id, pack=run.pack_type):
        return _executed(run, lease, message, fair_pass=started.fair_pass)


def _executed(run: Run, lease: Lease, message: WakingMessage | None, *, fair_pass: int | None) -> End:
    intent = _worked(run, lease, message, fair_pass=fair_pass)
    if intent is None:
        metrics.LEASES_LOST.inc()
        _log_execution_event("run stopped", run)
        return End.STOPPED
    begun = time.monotonic()
    claim = _claim_of_executed_run(run, lease, intent)
    end = _finished(claim) if isinstance(claim, Claim) else claim
    metrics.FINISH_SECONDS.observe(time.monotonic() - begun)
    if isinstance(end, Committed):
        _tell_end(run, intent, end)
        return End.COMMITTED
    _tell_left(run, end)
    return end


def _started(named: uuid.UUID, lease_token: str, *, in_turn: bool) -> StartedRun | None:
    """The run, now this worker's; None when there is none for it to start."""
    patience = Patience(seconds=START_PATIENCE_SECONDS)
    again = False
    while True:
        try:
            return starting.start_run(named, lease_token=lease_token, in_turn=in_turn, again=again)
        except DATABASE_AWAY as error:
            again = True
            log.warning("run not started yet", run_id=str(named), tried=patience.tried, exc_info=error)
            if not patience.lasts():
                raise


# Between start and claim: the run is held by its lease.


def _worked(run: Run, lease: Lease, message: WakingMessage | None, *, fair_pass: int | None) -> Intent | None:
    """Decide how the run ends; None when another actor took it over."""
    pack = registry.pack_named(run.pack_type)
    progress = ProgressOfRun(str(run.run_id))
    running = box().start(
        _job(run, pack),
        fetch_upload=store_result.upload_reader(run.tenant_id),
        log=partial(_from_pack, run),
        tell=progress,
    )
    signal = leases.take_run_lease(lease, fair_pass=fair_pass)
    with leases.keeper().holding(lease, message=message, stop=running.stop, has_signal=signal) as held:
        begun = time.monotonic()
        connections.close_all()  # back to the pool: it may be smaller than the slots, and the keeper needs one of it
        with spans.within_span("pack in its box"):
            outcome = running.wait()
        progress.end()
        metrics.PACK_SECONDS.labels(pack=run.pack_type, end=_execution_outcome_name(outcome)).observe(
            time.monotonic() - begun
        )
        if isinstance(outcome, Stopped):
            return None
        with spans.within_span("result store"):
            intent = store_result.store_result(run, outcome, is_lost=lambda: held.lost, said=progress.tail)
        return None if held.lost else intent


def _job(run: Run, pack: Pack[Any]) -> PackRequest:
    lacks = pack.missing()
    return PackRequest(
        run_id=str(run.run_id),
        module=registry.pack_modules()[pack.name],
        inputs=run.sent.inputs,
        artifacts_wanted=run.sent.artifacts or {},
        timebox_seconds=run.sent.timebox_sec,
        ceiling_micros=run.reservation_max_cost_usd_micros,
        memory_bytes=pack.memory_bytes,
        lacks=lacks,
        reach=None if lacks else _reach(run, pack),
        environment=pack.job_environment(os.environ),
        caller=run.tenant_id,
        price_version=_price_version(run, pack),
    )


def _price_version(run: Run, pack: Pack[Any]) -> str:
    """Which list the run is charged by: the one it was accepted under, or the newest where that is gone."""
    chosen = pack.price_list(run.price_version).version
    if run.price_version not in (None, chosen):  # None: accepted before runs had one
        log.warning(
            "price list gone",
            run_id=str(run.run_id),
            tenant_id=run.tenant_id,
            pack=run.pack_type,
            accepted_under=run.price_version,
            charged_by=chosen,
        )
    return chosen


def _reach(run: Run, pack: Pack[Any]) -> Reach | None:
    """What the run's own inputs name, its worker reaches; the job has no word in it."""
    if pack.command is None:
        return pack.reach(os.environ)
    asked = pack.command(dict(run.sent.inputs))
    return Reach(
        command=ports.registered_workspaces().command(tenant_id=run.tenant_id, exec_id=str(run.run_id), asked=asked)
    )


def _from_pack(run: Run, event: str, /, **values: JsonValue) -> None:
    log.info("pack", said=event, run_id=str(run.run_id), tenant_id=run.tenant_id, pack=run.pack_type, values=values)


def _execution_outcome_name(outcome: PackOutcome) -> str:
    if isinstance(outcome, Done):
        return "done"
    return "stopped" if isinstance(outcome, Stopped) else outcome.reason.value


# From the claim on: the run is held by its stage and token.


def _claim_of_executed_run(run: Run, lease: Lease, intent: Intent) -> Claim | End:
    """The won claim; or how it ended without one, and then this worker's part is over."""
    token = new_token()
    patience = Patience(seconds=CLAIM_PATIENCE_SECONDS)
    while True:
        try:
            claimed = transitions.claim_worked(
                run=run, lease_token=lease.token, token=token, intent=intent, actor=ACTOR
            )
            if claimed is LOST and patience.tried > 1:
                return _won_before(run, token)
        except DATABASE_AWAY as error:
            log.warning("run not claimed yet", run_id=str(run.run_id), tried=patience.tried, exc_info=error)
            if not patience.lasts():
                return End.UNCLAIMED
        else:
            return End.CLAIM_LOST if claimed is LOST else claimed.claim


def _won_before(run: Run, token: str) -> Claim | End:
    """A claim whose answer got lost has been won all the same.

    Its version is the one that the claim made, not the one that is read: a rebuild may have raised that, and would not
    raise it again (runs/reads/for_budget.py).
    """
    mine = Run.objects.filter(run_id=run.run_id, finalize_stage=Stage.CLAIMED, finalize_token=token).first()
    return End.CLAIM_LOST if mine is None else replace(Claim.stored(mine, actor=ACTOR), version=run.version + 1)


def _finished(claim: Claim) -> Committed | End:
    patience = Patience(seconds=FINISH_PATIENCE_SECONDS)
    while True:
        try:
            finished = finish_claim(claim)
        except DATABASE_AWAY as error:
            log.warning("run not finished yet", run_id=str(claim.run_id), tried=patience.tried, exc_info=error)
            finished = Unfinished.WAITING
        if isinstance(finished, Committed):
            return finished
        if finished is Unfinished.LOST:
            return (patience.tried > 1 and _committed_before(claim)) or End.COMMIT_LOST
        if not patience.lasts():
            return End.WAITING


def _committed_before(claim: Claim) -> Committed | None:
    """A commit whose answer got lost is met again as a loss."""
    mine = Run.objects.filter(run_id=claim.run_id, finalize_stage=Stage.COMMITTED, finalize_token=claim.token).first()
    return None if mine is None else Committed(mine.version)


# The lines that the log has of it (DPP-73).


def _log_execution_event(event: str, run: Run, **more: object) -> None:
    log.info(
        event,
        run_id=str(run.run_id),
        tenant_id=run.tenant_id,
        version_after=run.version,
        money_state=run.money_state,
        reserved_usd_micros=run.reservation_max_cost_usd_micros,
        **more,
    )


def _tell_left(run: Run, end: End) -> None:
    if end in (End.CLAIM_LOST, End.COMMIT_LOST):
        metrics.FINALIZE_LOSERS.labels(step=end.value.partition(" ")[0]).inc()
    _log_execution_event(
        "run left", run, end=end.value, finalize_stage=Stage.CLAIMED.value if end is End.WAITING else None
    )


def _tell_end(run: Run, intent: Intent, end: Committed) -> None:
    """One line with every field that DPP-73 asks for; of money only what has moved."""
    log.info(
        "run ended",
        run_id=str(run.run_id),
        tenant_id=run.tenant_id,
        status=intent.status.value,
        version_before=run.version,
        version_after=end.version,
        finalize_stage=Stage.COMMITTED.value,
        money_state=intent.money_state.value,
        reserved_usd_micros=run.reservation_max_cost_usd_micros,
        charge_usd_micros=intent.charge_micros,
        refund_usd_micros=run.reservation_max_cost_usd_micros - intent.charge_micros,
        error={"reason_code": intent.reason.value} if intent.reason else None,
    )
