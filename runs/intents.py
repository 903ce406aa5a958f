"""What a claim decides: how the run will end and what it will cost. Every finisher of the run carries this out."""

from dataclasses import dataclass
from typing import Self

from budget.money import capped_charge_micros
from dpp_project.reasons import ReasonCode
from runs.states import MoneyState, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPointer:
    """Where the stored envelope lies, and what it must hash to."""

    bucket: str
    key: str
    sha256: str


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
