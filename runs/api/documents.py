"""What tenants read of a run (DPP-20), made from one row and one glance at the balance."""

import json
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote
from uuid import UUID

import structlog
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, JsonValue, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from budget import ledger
from budget.money import FAILURE_FEE_RULE, format_usd
from dpp_project import clock
from dpp_project.reasons import REASONS, ReasonCode, type_uri
from runs.api.metering import shown_amount
from runs.bucket import storage
from runs.intents import OWN_FAILURES
from runs.models import Run
from runs.packs import registry
from runs.packs.pack import is_file_name
from runs.progress import RunProgress
from runs.reads import for_tenant
from runs.states import MoneyState, Stage, Status
from runs.submit.run_receipt import RunReceipt, run_href

log = structlog.get_logger("dpp.run")

MAX_INLINE_BYTES: Final = 262_144
MAX_ENVELOPE_BYTES: Final = 1_048_576

_EXAMPLE_ID = "01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e"
_EXAMPLE_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Cost(_Part):
    """US dollars with four decimals, rounded down, and beside each the exact micros: add those up."""

    reserved: str = Field(examples=["0.2500"], description="The price ceiling that was held.")
    used: str = Field(examples=["0.0500"], description="What was charged; zero until the run has ended.")
    minimum_fee: str = Field(examples=["0.0050"], description="What it costs if it fails at work.")
    budget_remaining: str = Field(examples=["99.9500"], description="The tenant's balance; zero where unknown.")
    reserved_usd_micros: int = Field(examples=[250_000])
    used_usd_micros: int = Field(examples=[50_000])
    minimum_fee_usd_micros: int = Field(examples=[5_000])
    budget_remaining_usd_micros: int | None = Field(examples=[99_950_000], description="Null where unknown.")


class FailedRunProblem(_Part):
    """Why the run failed, in the words of a problem document. It has no HTTP status: this answer succeeded."""

    type: str = Field(examples=["urn:dpp:problem:pack-failed"])
    title: str
    detail: str
    instance: str
    reason_code: str
    trace_id: str | None
    run_id: UUID


class _OfItsPack:
    """Results in the OpenAPI document, by pack. An object of any form stays among them: packs from outside need not
    declare theirs, and what does not fit the envelope is a file beside it.
    """

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        declared: list[Any] = [pack.result for pack in registry.packs_for_sale().values() if pack.result is not None]
        union: Any = reduce(or_, [*declared, dict[str, Any], None])
        return handler(TypeAdapter(union).core_schema)


class CompletedResult(_Part):
    presigned_url: str = Field(description="Downloads the envelope, without a key, until `expires_at`.")
    sha256: str = Field(examples=[_EXAMPLE_SHA256], description="Of the envelope's bytes.")
    expires_at: datetime
    data: Annotated[JsonValue, _OfItsPack()] = Field(
        default=None,
        description="The envelope's `data`, where `options.inline` asked for it and it fits 256 KB. Its schema is "
        '`result_schema` of its pack; a member that the envelope had no room for stands as `{"artifact": name}`.',
    )
    data_omitted: Literal["TOO_LARGE", "UNAVAILABLE"] | None = Field(
        default=None, description="Why `data` is not here although it was asked for; the address has it."
    )


class ArtifactDocument(_Part):
    """A file beside the envelope, such as `text.docx`, or a part of the data that the envelope had no room for."""

    name: str = Field(examples=["text.docx"])
    presigned_url: str = Field(description="Downloads the file, without a key, until `expires_at`.")
    content_type: str = Field(examples=["text/markdown; charset=utf-8"])
    size: int = Field(examples=[38_384], description="In bytes; its hash stands in the envelope.")
    expires_at: datetime


class RunArtifact(_Part):
    """A file beside the result. `href` gives an address that downloads it."""

    name: str = Field(examples=["text.docx"])
    href: str = Field(examples=[f"/v1/runs/{_EXAMPLE_ID}/artifacts/text.docx"])
    content_type: str = Field(examples=["text/markdown; charset=utf-8"])
    size: int = Field(examples=[38_384], description="In bytes.")
    sha256: str = Field(examples=[_EXAMPLE_SHA256])


class FailureFee(_Part):
    """What a run cost that failed at work."""

    charged_usd_micros: int = Field(examples=[5_000])
    refunded_usd_micros: int = Field(examples=[0], description="Given back because it failed on our side.")
    rule: str = Field(examples=[FAILURE_FEE_RULE])


class FailedResult(_Part):
    reason_code: str = Field(examples=["PACK_FAILED"])
    problem: FailedRunProblem
    failure_fee: FailureFee | None = Field(default=None, description="Null where the failure cost nothing.")


class RunMeta(_Part):
    created_at: datetime
    updated_at: datetime
    retention_until: datetime = Field(description="From then on the run answers 410.")
    trace_id: str | None
    profile_version: str


class RunSummary(_Part):
    run_id: UUID = Field(examples=[_EXAMPLE_ID])
    pack_type: str = Field(examples=["decision"])
    status: Status
    money_state: MoneyState
    cost: Cost
    metadata: dict[str, str] = Field(description="As it was sent.", examples=[{"project": "apollo"}])
    meta: RunMeta


class RunDocument(RunSummary):
    """A run as its owner sees it."""

    result: CompletedResult | FailedResult | None = Field(
        default=None, description="COMPLETED: where the result lies. FAILED: why. Before: null."
    )
    artifacts: list[RunArtifact] | None = Field(
        description="The files beside the result of a completed run. Null of a run that a worker of a release before "
        "0.2 ended: its envelope names them."
    )
    progress: RunProgress | None = Field(
        default=None, description="What its pack said last, while it works. Not every pack does, and it may get lost."
    )


class RunWithReceipt(RunReceipt):
    """The receipt, and beside it the run, which ended while the submit waited for it."""

    run: RunDocument


class RunPage(_Part):
    runs: list[RunSummary]
    next_cursor: str | None = Field(description="Hand it back as `cursor` for the next page; null on the last.")


def run_document(run: Run, *, balance_micros: int | None, progress: RunProgress | None = None) -> RunDocument:
    """The run whole. The bucket is read only where the data are to stand inline."""
    return RunDocument(
        **_common(run, balance_micros),
        result=_result(run),
        artifacts=_artifacts(run),
        progress=progress if run.status == Status.PROCESSING else None,
    )


def run_summary(run: Run, *, balance_micros: int | None) -> RunSummary:
    return RunSummary(**_common(run, balance_micros))


def cost_document(run: Run, *, balance_micros: int | None) -> Cost:
    return Cost(
        reserved=format_usd(run.reservation_max_cost_usd_micros),
        used=format_usd(run.actual_cost_usd_micros or 0),
        minimum_fee=format_usd(run.minimum_fee_usd_micros),
        budget_remaining=shown_amount(balance_micros),
        reserved_usd_micros=run.reservation_max_cost_usd_micros,
        used_usd_micros=run.actual_cost_usd_micros or 0,
        minimum_fee_usd_micros=run.minimum_fee_usd_micros,
        budget_remaining_usd_micros=balance_micros,
    )


def tokens_of(run: Run) -> int:
    """The claim writes them; they count once it is committed."""
    return run.tokens_consumed if run.finalize_stage == Stage.COMMITTED else 0


def _common(run: Run, balance_micros: int | None) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "pack_type": run.pack_type,
        "status": Status.EXPIRED if for_tenant.is_gone(run) else Status(run.status),
        "money_state": MoneyState(run.money_state),
        "cost": cost_document(run, balance_micros=balance_micros),
        "metadata": dict(run.metadata),
        "meta": RunMeta(
            created_at=run.created_at,
            updated_at=run.updated_at,
            retention_until=run.retention_until,
            trace_id=run.trace_id,
            profile_version=run.profile_version,
        ),
    }


def _result(run: Run) -> CompletedResult | FailedResult | None:
    if run.status == Status.COMPLETED and run.result_key is not None:
        return _completed(run, run.result_key)
    if run.status == Status.FAILED and run.last_error_reason_code is not None:
        return _failed_result_document(run, run.last_error_reason_code)
    return None


def _completed(run: Run, key: str) -> CompletedResult:
    seconds = storage.seconds_to_sign(retention_until=run.retention_until)
    data, omitted = _inline(run, key)
    expires_at = clock.now().replace(microsecond=0) + timedelta(seconds=seconds)  # signatures know whole seconds
    return CompletedResult(
        presigned_url=storage.shared_run_storage().presign_get(key, seconds=seconds),
        sha256=run.result_sha256 or "",
        expires_at=expires_at,
        data=data,
        data_omitted=omitted,
    )


def _artifacts(run: Run) -> list[RunArtifact] | None:
    if run.status != Status.COMPLETED:
        return []
    if run.result_artifacts is None:
        return None
    return [
        RunArtifact(name=name, href=f"{run_href(run.run_id)}/artifacts/{quote(name)}", **about)
        for name, about in sorted(run.result_artifacts.items())
    ]


def artifact_document(run: Run, name: str) -> ArtifactDocument | None:
    """The bucket is asked whether there is one; None for a run that has not completed, too."""
    if run.status != Status.COMPLETED or run.result_key is None or not is_file_name(name):
        return None
    key = storage.artifact_key(run.result_key, name)
    head = storage.shared_run_storage().head(key)
    if head is None:
        return None
    seconds = storage.seconds_to_sign(retention_until=run.retention_until)
    return ArtifactDocument(
        name=name,
        presigned_url=storage.shared_run_storage().presign_get(key, seconds=seconds),
        content_type=head.content_type,
        size=head.size,
        expires_at=clock.now() + timedelta(seconds=seconds),
    )


def _inline(run: Run, key: str) -> tuple[JsonValue, Literal["TOO_LARGE", "UNAVAILABLE"] | None]:
    if not run.sent.inline:
        return None, None
    try:
        envelope = storage.shared_run_storage().read(key, max_bytes=MAX_ENVELOPE_BYTES)
        data: JsonValue = json.loads(envelope)["data"]
    except storage.ObjectTooLarge:
        return None, "TOO_LARGE"
    except (storage.ObjectMissing, BotoCoreError, ClientError, ValueError, KeyError) as error:
        log.warning("envelope not read", run_id=str(run.run_id), exc_info=error)
        return None, "UNAVAILABLE"
    size = len(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode())
    return (None, "TOO_LARGE") if size > MAX_INLINE_BYTES else (data, None)


def _failed_result_document(run: Run, reason_code: str) -> FailedResult:
    reason = ReasonCode(reason_code)
    return FailedResult(
        reason_code=reason_code,
        problem=FailedRunProblem(
            type=type_uri(reason),
            title=REASONS[reason].title,
            detail=run.last_error_detail or REASONS[reason].cause,
            instance=run_href(run.run_id),
            reason_code=reason_code,
            trace_id=run.trace_id,
            run_id=run.run_id,
        ),
        failure_fee=_failure_fee(run, reason),
    )


def _failure_fee(run: Run, reason: ReasonCode) -> FailureFee | None:
    if not run.actual_cost_usd_micros:
        return None
    refunded = ledger.refund_of(run.tenant_id, run.run_id) if reason in OWN_FAILURES else 0
    return FailureFee(
        charged_usd_micros=run.actual_cost_usd_micros, refunded_usd_micros=refunded, rule=FAILURE_FEE_RULE
    )
