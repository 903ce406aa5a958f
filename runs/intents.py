"""What a claim decides: how the run will end and what it will cost. Every finisher of the run carries this out."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, Self

from budget.money import capped_charge_micros
from dpp_project.reasons import ReasonCode
from runs.states import MoneyState, Status

FREES_ITS_KEY: Final = (ReasonCode.QUEUE_ENQUEUE_FAILED, ReasonCode.SUBMIT_ABANDONED)
"""A run that ended so never reached its caller: the same Idempotency-Key may be used again."""
OWN_FAILURES: Final = (ReasonCode.WORKER_TIMEOUT, ReasonCode.RESULT_LOST)
"""Ends that the platform, not the work, is at fault for. They cost the minimum fee; a tenant may be given it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArtifact:
    """A file beside the envelope, as its owner reads of it."""

    content_type: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPointer:
    """Where the stored envelope lies, and what it must hash to."""

    bucket: str
    key: str
    sha256: str
    artifacts: Mapping[str, StoredArtifact] = field(default_factory=dict)
    """The files beside it, by name."""

    @property
    def artifacts_json(self) -> str:
        """As the row keeps them."""
        return json.dumps({name: asdict(one) for name, one in self.artifacts.items()}, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One of three: completed and charged, failed at the minimum fee, failed with everything returned."""

    status: Status
    money_state: MoneyState
    charge_micros: int
    reason: ReasonCode | None = None
    detail: str | None = None
    result: ResultPointer | None = None
    tokens_consumed: int = 0

    def stored(self) -> dict[str, object]:
        """As the claim writes it."""
        result = self.result
        return {
            "intent_status": self.status.value,
            "intent_money_state": self.money_state.value,
            "charge_micros": self.charge_micros,
            "reason": None if self.reason is None else self.reason.value,
            "detail": self.detail,
            "tokens_consumed": self.tokens_consumed,
            "bucket": None if result is None else result.bucket,
            "key": None if result is None else result.key,
            "sha256": None if result is None else result.sha256,
            "artifacts": None if result is None else result.artifacts_json,
        }

    @classmethod
    def completed(
        cls,
        *,
        actual_micros: int,
        reserved_micros: int,
        result: ResultPointer | None = None,
        tokens_consumed: int = 0,
    ) -> Self:
        """Without its result until that is stored: the database takes no claim of it before."""
        return cls(
            status=Status.COMPLETED,
            money_state=MoneyState.SETTLED,
            charge_micros=capped_charge_micros(actual_micros, reserved_micros=reserved_micros),
            result=result,
            tokens_consumed=tokens_consumed,
        )

    @classmethod
    def minimum_fee(
        cls,
        *,
        minimum_fee_micros: int,
        reserved_micros: int,
        reason: ReasonCode,
        detail: str | None = None,
        result: ResultPointer | None = None,
        tokens_consumed: int = 0,
    ) -> Self:
        return cls(
            status=Status.FAILED,
            money_state=MoneyState.SETTLED,
            charge_micros=capped_charge_micros(minimum_fee_micros, reserved_micros=reserved_micros),
            reason=reason,
            detail=detail,
            result=result,
            tokens_consumed=tokens_consumed,
        )

    @classmethod
    def full_refund(cls, *, reason: ReasonCode, detail: str | None = None, result: ResultPointer | None = None) -> Self:
        return cls(
            status=Status.FAILED,
            money_state=MoneyState.REFUNDED,
            charge_micros=0,
            reason=reason,
            detail=detail,
            result=result,
        )
