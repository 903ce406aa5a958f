"""The answer to a submit (DPP-04): the same bytes whether the run is new, replayed, or read from the database alone."""

from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from budget.money import format_usd
from dpp_project.constants import POLL_RECOMMENDED_INTERVAL_MS, WAIT_SECONDS_MAX
from runs.models import Run
from runs.states import Status
from runs.submissions import Submission


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class HeldReservation(_Part):
    max_cost_usd: str = Field(examples=["0.2500"])
    timebox_sec: int = Field(examples=[90])
    min_reliability_score: float = Field(examples=[0.8])


class Poll(_Part):
    href: str = Field(examples=["/v1/runs/01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e"])
    wait_href: str = Field(
        examples=["/v1/runs/01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e?wait=55"],
        description="Answers as soon as the run has ended: ask this instead of polling.",
    )
    recommended_interval_ms: int = Field(examples=[POLL_RECOMMENDED_INTERVAL_MS])


class ReceiptMeta(_Part):
    trace_id: str | None = Field(examples=["t_4bf92f3577b34da6a3ce929d0e0e4736"])
    profile_version: str = Field(examples=["PROFILE_DPP_0_4_2_2"])


class RunReceipt(_Part):
    """The run was accepted and its price is held. A replay answers this very text again, whatever became of the run."""

    run_id: UUID = Field(examples=["01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e"])
    status: str = Field(examples=[Status.QUEUED.value], description="QUEUED: the state in which the run was accepted.")
    reservation: HeldReservation
    poll: Poll
    meta: ReceiptMeta


def run_href(run_id: UUID) -> str:
    return f"/v1/runs/{run_id}"


def run_receipt(run_id: UUID, asked: Submission) -> RunReceipt:
    return _receipt(
        run_id=run_id,
        reserved_micros=asked.reserved_micros,
        timebox_sec=asked.timebox_sec,
        min_reliability_score=asked.min_reliability_score,
        trace_id=asked.trace_id,
        profile_version=asked.profile_version,
    )


def run_receipt_of(run: Run) -> RunReceipt:
    """From the row and what was sent with it."""
    return _receipt(
        run_id=run.run_id,
        reserved_micros=run.reservation_max_cost_usd_micros,
        timebox_sec=run.sent.timebox_sec,
        min_reliability_score=run.sent.min_reliability_score,
        trace_id=run.trace_id,
        profile_version=run.profile_version,
    )


def _receipt(
    *,
    run_id: UUID,
    reserved_micros: int,
    timebox_sec: int,
    min_reliability_score: float,
    trace_id: str | None,
    profile_version: str,
) -> RunReceipt:
    return RunReceipt(
        run_id=run_id,
        status=Status.QUEUED.value,
        reservation=HeldReservation(
            max_cost_usd=format_usd(reserved_micros),
            timebox_sec=timebox_sec,
            min_reliability_score=min_reliability_score,
        ),
        poll=Poll(
            href=run_href(run_id),
            wait_href=f"{run_href(run_id)}?wait={WAIT_SECONDS_MAX}",
            recommended_interval_ms=POLL_RECOMMENDED_INTERVAL_MS,
        ),
        meta=ReceiptMeta(trace_id=trace_id, profile_version=profile_version),
    )
