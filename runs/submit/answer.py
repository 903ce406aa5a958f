"""What a submit answers: the run stands, or why there is none."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from budget.caps.figures import LIMIT_WORDS, CapFigures
from budget.money import format_usd
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from runs.submit.run_receipt import RunReceipt

RETRY_SECONDS: Final = 1
RETRY_MONEY_SECONDS: Final = 2
RETRY_ENGINE_SECONDS: Final = 60


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
class SubmitRefusal(Refusal):
    """No run stands for this request, or not yet."""

    balance_micros: int | None = None


SubmitAnswer = Submitted | SubmitRefusal

IN_PROGRESS: Final = SubmitRefusal(
    reason=ReasonCode.IDEMPOTENCY_IN_PROGRESS,
    detail="A request with this Idempotency-Key is being handled, or its run is being ended.",
    retry_after_seconds=RETRY_SECONDS,
)
EXECUTION_DISABLED: Final = SubmitRefusal(
    reason=ReasonCode.EXECUTION_DISABLED, detail="New runs of this tenant are turned off by an operator."
)
ENGINE_UNAVAILABLE: Final = SubmitRefusal(
    reason=ReasonCode.ENGINE_UNAVAILABLE,
    detail="This pack lacks its engine or a file of it at the moment. Nothing was held.",
    retry_after_seconds=RETRY_ENGINE_SECONDS,
)
BUDGET_UNAVAILABLE: Final = SubmitRefusal(
    reason=ReasonCode.BUDGET_UNAVAILABLE,
    detail="Money cannot be held at the moment.",
    retry_after_seconds=RETRY_MONEY_SECONDS,
)


def submit_conflict(run_id: UUID, *, balance_micros: int | None) -> SubmitRefusal:
    return SubmitRefusal(
        reason=ReasonCode.IDEMPOTENCY_CONFLICT,
        detail="This Idempotency-Key stands for another request.",
        run_id=run_id,
        balance_micros=balance_micros,
    )


def upload_missing(field: str) -> SubmitRefusal:
    return SubmitRefusal(
        reason=ReasonCode.VALIDATION_FAILED,
        detail="there is no such file among your uploads; POST /v1/uploads, PUT the file, then submit",
        field=field,
    )


def workspace_waking(seconds: int) -> SubmitRefusal:
    return SubmitRefusal(
        reason=ReasonCode.WORKSPACE_WAKING,
        detail="The workspace sleeps and is being woken. Nothing was held; submit again.",
        retry_after_seconds=seconds,
    )


def workspace_unfit(detail: str) -> SubmitRefusal:
    return SubmitRefusal(reason=ReasonCode.VALIDATION_FAILED, detail=detail, field="inputs.workspace_id")


def workspaces_scope_missing() -> SubmitRefusal:
    return SubmitRefusal(
        reason=ReasonCode.SCOPE_MISSING, detail="This pack needs a key with the scope workspaces:write as well."
    )


GONE_DETAIL: Final = "The run's retention has passed."


def submit_gone(run_id: UUID, *, balance_micros: int | None) -> SubmitRefusal:
    """The key still names a run that its owner can read no more; it is free again when the run is a tombstone."""
    return SubmitRefusal(reason=ReasonCode.GONE, detail=GONE_DETAIL, run_id=run_id, balance_micros=balance_micros)


def submit_drained(*, price_micros: int, balance_micros: int) -> SubmitRefusal:
    price, balance = format_usd(price_micros), format_usd(balance_micros)
    return SubmitRefusal(
        reason=ReasonCode.BUDGET_DRAINED,
        detail=f"The run may cost {price} USD, and {balance} USD are left to hold.",
        balance_micros=balance_micros,
    )


def cap_reached(cap: CapFigures, *, price_micros: int, balance_micros: int | None) -> SubmitRefusal:
    """`cap` is the window that has no room, with the figures that the refusal itself was made by."""
    price, limit = format_usd(price_micros), format_usd(cap.limit_micros)
    whose = "key's" if cap.scope == "key" else "tenant's"
    named = f"the {whose} cap of {limit} USD {LIMIT_WORDS[cap.period]}"
    if price_micros > cap.limit_micros:
        detail = f"The run may cost {price} USD, more than {named} itself."
    else:
        detail = f"The run may cost {price} USD, and {format_usd(cap.left_micros)} USD are left of {named}."
    return SubmitRefusal(
        reason=ReasonCode.SPEND_CAP_REACHED,
        detail=detail,
        extensions={"cap": cap.document()},
        balance_micros=balance_micros,
    )


def not_queued(run_id: UUID, *, balance_micros: int | None) -> SubmitRefusal:
    return SubmitRefusal(
        reason=ReasonCode.QUEUE_ENQUEUE_FAILED,
        detail="The run could not be queued; what was held goes back in full.",
        retry_after_seconds=RETRY_MONEY_SECONDS,
        run_id=run_id,
        balance_micros=balance_micros,
    )
