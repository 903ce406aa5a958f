"""Runs for tests, brought to each state by the edges that do it in earnest."""

import secrets
import uuid
from datetime import timedelta
from typing import Any, TypeVar

from django.db import connection
from django.db.models.functions import Now

from dpp_project.reasons import ReasonCode
from runs import run_ids, transitions
from runs.claims import Accepted, AlreadyAccepted, Claim, Lost, Won, counted_of
from runs.intents import Intent, ResultPointer
from runs.models import Run, RunDispute, RunHistory, RunInputs
from runs.states import MoneyState
from runs.submissions import Submission
from tests.gear.builders.tenants import a_tenant

RESERVED_MICROS = 250_000
ACTUAL_MICROS = 50_000
FEE_MICROS = 5_000
PAYLOAD_HASH = "a" * 64
LEASE_TOKEN = "the-lease"
TOKEN = "the-claim"
POINTER = ResultPointer(bucket="dpp-results", key="dpp/t/2026/03/01/run/pack_envelope.json", sha256="b" * 64)

COMPLETED = Intent.completed(
    actual_micros=ACTUAL_MICROS, reserved_micros=RESERVED_MICROS, result=POINTER, tokens_consumed=7
)
REFUND = Intent.full_refund(reason=ReasonCode.CANCELED_BY_OWNER)


def fee(reason: ReasonCode = ReasonCode.WORKER_TIMEOUT) -> Intent:
    return Intent.minimum_fee(minimum_fee_micros=FEE_MICROS, reserved_micros=RESERVED_MICROS, reason=reason)


Edge = TypeVar("Edge", bound=Won)


def won(answer: Edge | Lost) -> Edge:
    assert isinstance(answer, Won)
    return answer


def claim_of(run: Run, *, intent: Intent | None = None, token: str = TOKEN, actor: str = "worker") -> Claim:
    """The claim on a row in whatever state, as somebody would hold it who takes the row for claimed."""
    intent = intent or COMPLETED
    return Claim(
        run_id=run.run_id,
        tenant_id=run.tenant_id,
        trace_id=run.trace_id,
        version=run.version,
        token=token,
        actor=actor,
        money_state=intent.money_state,
        charge_micros=intent.charge_micros,
        was_held=run.money_state == MoneyState.RESERVED,
        counted=counted_of(run),
    )


def accept(**values: Any) -> Accepted | AlreadyAccepted:
    """The edge, with every argument filled in."""
    arguments: dict[str, Any] = {
        "run_id": run_ids.new_run_id(),
        "pack_type": "decision",
        "profile_version": "PROFILE_DPP_0_4_2_2",
        "idempotency_key": secrets.token_hex(16),
        "payload_hash": PAYLOAD_HASH,
        "reserved_micros": RESERVED_MICROS,
        "inputs": {"question": "What is held?"},
        "artifacts": None,
        "timebox_sec": 90,
        "min_reliability_score": 0.8,
        "inline": False,
        "trace_id": "a-trace",
        "actor": "api",
    }
    arguments |= values
    run_id, actor = arguments.pop("run_id"), arguments.pop("actor")
    fair_pass = arguments.pop("fair_pass", None)
    return transitions.accept(run_id=run_id, asked=Submission(**arguments), actor=actor, fair_pass=fair_pass)


def accepted(**values: Any) -> Run:
    """QUEUED, money NONE, version 0."""
    values.setdefault("tenant_id", None)
    values["tenant_id"] = values["tenant_id"] or a_tenant().tenant_id
    answer = accept(**values)
    assert isinstance(answer, Accepted)
    return row(answer.run_id)


def reserved(**values: Any) -> Run:
    """QUEUED, RESERVED, version 1."""
    run = accepted(**values)
    won(transitions.reserve(run_id=run.run_id, version=0, actor="api"))
    return row(run.run_id)


def working(**values: Any) -> Run:
    """PROCESSING under LEASE_TOKEN, version 2."""
    run = reserved(**values)
    won(transitions.start(run_id=run.run_id, version=1, lease_token=LEASE_TOKEN, actor="worker"))
    return row(run.run_id)


def claimed(*, intent: Intent = COMPLETED, **values: Any) -> Run:
    """Claimed by its worker under TOKEN, version 3."""
    run = working(**values)
    won(transitions.claim_worked(run=run, lease_token=LEASE_TOKEN, token=TOKEN, intent=intent, actor="worker"))
    return row(run.run_id)


def committed(*, intent: Intent = COMPLETED, **values: Any) -> Run:
    """Ended as its worker meant it, version 4."""
    run = claimed(intent=intent, **values)
    won(transitions.commit(claim=claim_of(run, intent=intent), taken_micros=intent.charge_micros))
    return row(run.run_id)


def disputed(**values: Any) -> Run:
    """Completed and in dispute, version 5."""
    run = committed(**values)
    won(transitions.dispute(run_id=run.run_id, version=run.version, actor="operator:kim"))
    return row(run.run_id)


def expired(**values: Any) -> Run:
    """A tombstone, version 5."""
    run = aged(committed(**values), retention_until=1)
    won(transitions.expire(run_id=run.run_id, version=4, actor="retention"))
    return row(run.run_id)


def row(run_id: uuid.UUID) -> Run:
    return Run.objects.get(run_id=run_id)


def aged(run: Run, **seconds_ago: int) -> Run:
    """Times of the row moved into the past, by the database's clock; negative ones into the future."""
    Run.objects.filter(run_id=run.run_id).update(
        **{column: Now() - timedelta(seconds=seconds) for column, seconds in seconds_ago.items()}
    )
    return row(run.run_id)


def timeline(run_id: uuid.UUID) -> list[tuple[int, str, str, str | None, str]]:
    return list(
        RunHistory.objects.filter(run_id=run_id)
        .order_by("version")
        .values_list("version", "status", "money_state", "stage", "actor")
    )


def everything(run_id: uuid.UUID) -> dict[str, Any]:
    """All that the database knows of a run, to be compared before and after a refusal."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_jsonb(entry) FROM ledger_entries entry WHERE run_id = %s ORDER BY entry_id", [run_id])
        entries = [entry for (entry,) in cursor.fetchall()]
    return {
        "run": list(Run.objects.filter(run_id=run_id).values()),
        "inputs": list(RunInputs.objects.filter(run_id=run_id).values()),
        "history": list(RunHistory.objects.filter(run_id=run_id).order_by("version").values()),
        "disputes": list(RunDispute.objects.filter(run_id=run_id).order_by("version").values()),
        "entries": entries,
    }
