"""What the API answers, as frozen dataclasses. Money is whole micros, with dollars as Decimal beside it; never a float.

Each has `raw`, the answer as it came: fields that a later release adds stand there.
"""

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar, cast

from dpp.errors import RunFailedError, UnexpectedAnswerError

ENDED = frozenset({"COMPLETED", "FAILED", "EXPIRED"})


def usd(micros: int) -> Decimal:
    """Exact: a micro is a millionth of a dollar."""
    return Decimal(micros).scaleb(-6)


@dataclass(frozen=True, kw_only=True)
class Document:
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Cost(Document):
    reserved_usd_micros: int
    used_usd_micros: int
    minimum_fee_usd_micros: int
    budget_remaining_usd_micros: int | None

    @property
    def reserved_usd(self) -> Decimal:
        return usd(self.reserved_usd_micros)

    @property
    def used_usd(self) -> Decimal:
        return usd(self.used_usd_micros)


@dataclass(frozen=True, kw_only=True)
class Problem(Document):
    title: str
    detail: str
    reason_code: str
    trace_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunResult(Document):
    """COMPLETED: where the result lies. FAILED: why."""

    presigned_url: str | None = field(default=None, repr=False)
    sha256: str | None = None
    expires_at: datetime | None = None
    data: Any = None
    data_omitted: str | None = None
    reason_code: str | None = None
    problem: Problem | None = None


@dataclass(frozen=True, kw_only=True)
class Artifact(Document):
    name: str
    content_type: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Progress(Document):
    """What the pack said last; what it has not said is None."""

    at: datetime
    percent: float | None = None
    note: str | None = None
    line: str | None = None
    cost_usd_micros: int | None = None


@dataclass(frozen=True, kw_only=True)
class RunMeta(Document):
    created_at: datetime
    updated_at: datetime
    retention_until: datetime
    trace_id: str | None


@dataclass(frozen=True, kw_only=True)
class RunSummary(Document):
    run_id: str
    pack_type: str
    status: str
    money_state: str
    cost: Cost
    metadata: dict[str, str]
    meta: RunMeta

    @property
    def ended(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True, kw_only=True)
class Run(RunSummary):
    result: RunResult | None = None
    artifacts: list[Artifact] | None = None
    progress: Progress | None = None

    @property
    def completed(self) -> bool:
        return self.status == "COMPLETED"

    def check(self) -> "Run":
        """Itself, unless it has failed: then RunFailedError."""
        if self.status == "FAILED":
            result = self.result
            problem = None if result is None else result.problem
            detail = "no reason is known" if problem is None else problem.detail
            reason = "UNKNOWN" if result is None or result.reason_code is None else result.reason_code
            raise RunFailedError(self.run_id, reason, detail, trace_id=self.meta.trace_id)
        return self


@dataclass(frozen=True, kw_only=True)
class Receipt(Document):
    """The run was accepted, and its price is held."""

    run_id: str
    status: str
    idempotency_key: str
    replayed: bool = False
    """The key had been used before: this is that purchase, and no second one."""
    run: Run | None = None
    """Where the submit waited for it and it ended in time."""


@dataclass(frozen=True, kw_only=True)
class CapWindow(Document):
    scope: str
    period: str
    window: str
    limit_usd_micros: int
    used_usd_micros: int
    held_usd_micros: int
    left_usd_micros: int


@dataclass(frozen=True, kw_only=True)
class Budget(Document):
    tenant_id: str
    balance_usd_micros: int
    held_usd_micros: int
    charged_usd_micros: int
    credited_usd_micros: int
    zone: str
    caps: list[CapWindow]

    @property
    def balance_usd(self) -> Decimal:
        return usd(self.balance_usd_micros)


@dataclass(frozen=True, kw_only=True)
class Entry(Document):
    """A line of the ledger."""

    entry_id: str
    created_at: datetime
    kind: str
    amount_usd_micros: int
    balance_after_usd_micros: int
    run_id: str | None
    reference: str | None
    reason: str

    @property
    def amount_usd(self) -> Decimal:
        return usd(self.amount_usd_micros)


@dataclass(frozen=True, kw_only=True)
class UsageAmounts(Document):
    charged_usd_micros: int
    credited_usd_micros: int
    net_usd_micros: int
    runs: int
    tokens: int

    @property
    def net_usd(self) -> Decimal:
        return usd(self.net_usd_micros)


@dataclass(frozen=True, kw_only=True)
class UsageLine(UsageAmounts):
    period: str
    group: str | None = None


@dataclass(frozen=True, kw_only=True)
class Usage(Document):
    tenant_id: str
    zone: str
    by: str
    group_by: str | None
    rows: list[UsageLine]
    totals: UsageAmounts


@dataclass(frozen=True, kw_only=True)
class SpentByKey(Document):
    day_usd_micros: int
    week_usd_micros: int
    month_usd_micros: int
    total_usd_micros: int


@dataclass(frozen=True, kw_only=True)
class ApiKey(Document):
    """What is known of a key; never the key itself."""

    key_id: str
    prefix: str
    label: str | None
    scopes: list[str]
    spent: SpentByKey
    caps: list[CapWindow]


@dataclass(frozen=True, kw_only=True)
class Pack(Document):
    pack_type: str
    summary: str
    inputs_schema: dict[str, Any]
    example: dict[str, Any]
    artifacts: list[str]
    missing: list[str]


@dataclass(frozen=True, kw_only=True)
class StepEvent(Document):
    """A step of a run. `used_usd_micros` and `reason_code` stand in the last one alone."""

    version: int
    status: str
    money_state: str
    at: datetime
    used_usd_micros: int | None = None
    reason_code: str | None = None

    @property
    def ended(self) -> bool:
        return self.status in ENDED


D = TypeVar("D", bound=Document)


def document_of(kind: type[D], found: Any, /, **more: Any) -> D:
    """Raises UnexpectedAnswerError where the answer is another thing than the API gives."""
    try:
        return cast("D", _made(kind, found, more))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnexpectedAnswerError(f"the answer is no {kind.__name__} of DPP ({type(error).__name__})") from None


def _made(kind: type[Any], found: Any, more: Mapping[str, Any]) -> Any:
    if not isinstance(found, dict):
        raise TypeError
    values, hints = {"raw": found, **more}, typing.get_type_hints(kind)
    for one in fields(kind):
        if one.name not in values and one.name in found:
            values[one.name] = _value(hints[one.name], found[one.name])
    return kind(**values)


def _value(hint: Any, found: Any) -> Any:
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return None if found is None else _value(next(one for one in inside if one is not type(None)), found)
    if origin is list and isinstance(found, list):
        return [_value(inside[0], one) for one in found]
    if origin is dict and isinstance(found, dict):
        return dict(found)
    return _single(hint, found)


def _single(hint: Any, found: Any) -> Any:
    if hint is Any:
        return found
    if isinstance(hint, type) and issubclass(hint, Document):
        return _made(hint, found, {})
    if hint is datetime:
        return datetime.fromisoformat(found)
    if hint is float and type(found) is int:
        return float(found)
    if type(found) is not hint:  # a bool is no number, and a float no amount
        raise TypeError
    return found
