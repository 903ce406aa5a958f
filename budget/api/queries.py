"""What callers may ask for: query strings, and the bodies of top-ups, caps, keys and settings."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StrictStr, model_validator

from budget.entries import TEXT_LENGTH_MAX
from budget.ledger import StatementPeriod
from budget.models import LedgerEntry
from budget.money import USD_PATTERN, parse_usd
from budget.redis.windows import PERIODS, CapPeriod
from dpp_project.http.cursors import CursorParameter
from tenants.services import GRACE_DEFAULT, GRACE_MAX, BudgetSetting


class EntriesQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    limit: Annotated[int, Field(ge=1, le=200, description="Entries on a page.")] = 50
    cursor: CursorParameter = None
    kind: Annotated[LedgerEntry.Kind | None, Field(description="Only such entries.")] = None
    created_from: Annotated[AwareDatetime | None, Field(description="Entered then or later.")] = None
    created_to: Annotated[AwareDatetime | None, Field(description="Entered before.")] = None

    def period(self) -> StatementPeriod:
        return StatementPeriod(self.created_from, self.created_to)


def _checked_budget_usd_text(text: str) -> str:
    parse_usd(text)
    return text


def _a_cap(text: str) -> str:
    parse_usd(text, least=0)
    return text


CapAmount = Annotated[
    Annotated[
        StrictStr,
        AfterValidator(_a_cap),
        Field(json_schema_extra={"pattern": USD_PATTERN}),
    ]
    | None,
    Field(
        description='A string with exactly four decimals, "0.0000" to "9007199254.7409"; null takes the limit away, and'
        " what is left out stays.",
        examples=["5.0000"],
    ),
]


class CapsChange(BaseModel):
    """What the runs of a day, a week from Monday, a month, and ever may cost. What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"minProperties": 1})

    day_usd: CapAmount = None
    week_usd: CapAmount = None
    month_usd: CapAmount = None
    total_usd: CapAmount = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("send at least one of day_usd, week_usd, month_usd and total_usd")
        return self

    def changes(self) -> dict[CapPeriod, int | None]:
        named = {
            period: getattr(self, f"{period}_usd") for period in PERIODS if f"{period}_usd" in self.model_fields_set
        }
        return {period: None if text is None else parse_usd(text, least=0) for period, text in named.items()}


class NewKeyRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    scopes: Annotated[
        list[Annotated[StrictStr, Field(max_length=64)]],
        Field(
            min_length=1,
            max_length=50,
            description="Some of the asking key's own, never `keys:write`. The order and repetitions do not matter.",
            examples=[["runs:read", "runs:write"]],
        ),
    ]
    label: Annotated[
        StrictStr | None,
        Field(max_length=TEXT_LENGTH_MAX, description="What the key is for, for people.", examples=["nightly CI"]),
    ] = None
    expires_at: Annotated[
        AwareDatetime | None,
        Field(description="When it ends by itself; left out, when the asking key does, which may be never."),
    ] = None
    caps: Annotated[CapsChange | None, Field(description="What it may spend, from its first run on.")] = None


class RotateKeyRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    grace_sec: Annotated[
        int,
        Field(
            strict=True,
            ge=0,
            le=int(GRACE_MAX.total_seconds()),
            description="How long the old key still works; both count together.",
        ),
    ] = int(GRACE_DEFAULT.total_seconds())


class KeysQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=200, description="Keys on a page.")] = 50
    cursor: CursorParameter = None


class BudgetChange(BaseModel):
    """What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"minProperties": 1})

    zone: Annotated[
        StrictStr | None,
        Field(
            max_length=64,
            description="The IANA name of the time zone whose midnight ends a day of spending.",
            examples=["Europe/Berlin"],
        ),
    ] = None
    low_usd: Annotated[
        Annotated[
            StrictStr, AfterValidator(_checked_budget_usd_text), Field(json_schema_extra={"pattern": USD_PATTERN})
        ]
        | None,
        Field(
            description="Below it webhooks hear `budget.low`; a string with exactly four decimals, null for never.",
            examples=["10.0000"],
        ),
    ] = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set or (self.zone is None and "zone" in self.model_fields_set):
            raise ValueError("send zone, low_usd or both; zone is not null, UTC is the zone of none")
        return self

    def changes(self) -> dict[BudgetSetting, Any]:
        found: dict[BudgetSetting, Any] = {}
        if self.zone is not None:
            found["zone"] = self.zone
        if "low_usd" in self.model_fields_set:
            found["low_balance_usd_micros"] = None if self.low_usd is None else parse_usd(self.low_usd)
        return found


class TopUpRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    amount_usd: Annotated[
        StrictStr,
        AfterValidator(_checked_budget_usd_text),
        Field(
            description="A string with exactly four decimals.",
            examples=["25.0000"],
            json_schema_extra={"pattern": USD_PATTERN},
        ),
    ]
    reason: Annotated[StrictStr, Field(max_length=TEXT_LENGTH_MAX, examples=["Invoice 2026-031"])] = ""

    def amount_micros(self) -> int:
        return parse_usd(self.amount_usd)
