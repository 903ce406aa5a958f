"""What the addresses of caps and keys answer. Amounts stand in micros, exact, and in dollars for people."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from budget.caps.figures import CapFigures
from budget.caps.key_spending import KeySpending
from budget.caps.rows import CapLimits
from budget.caps.tenant_keys import KeyMade
from budget.money import format_usd
from budget.redis.windows import PERIODS, CapPeriod
from dpp_project import clock
from tenants import services
from tenants.models import ApiKey, Tenant


class CapDocument(BaseModel):
    model_config = ConfigDict(frozen=True)


class CapWindow(CapDocument):
    """One window of one cap. used + held + left = limit, unless the limit was lowered below what was counted."""

    scope: Literal["tenant", "key"] = Field(description="Whose cap: the tenant's, or the asking key's own.")
    period: Literal["day", "week", "month", "total"]
    window: str = Field(
        description="The date, the week's Monday, the month, or `ever`, in the tenant's zone.", examples=["2026-03-01"]
    )
    limit_usd_micros: int
    used_usd_micros: int = Field(description="What runs of this window were charged, less what went back.")
    held_usd_micros: int = Field(description="What runs under way in this window may still be charged.")
    left_usd_micros: int
    limit_usd: str
    used_usd: str
    held_usd: str
    left_usd: str
    zone: str = Field(examples=["Europe/Berlin"])
    resets_at: Annotated[
        str | None,
        Field(
            description="The local midnight that ends it, with its offset; null for the total, which stays.",
            json_schema_extra={"format": "date-time"},
        ),
    ]

    @classmethod
    def of(cls, figures: CapFigures) -> Self:
        return cls(**figures.document())


class SpentByKey(CapDocument):
    """What a key was charged, its rotations included, in the windows that are running now."""

    day_usd_micros: int
    day_usd: str
    week_usd_micros: int = Field(description="Since Monday.")
    week_usd: str
    month_usd_micros: int
    month_usd: str
    total_usd_micros: int = Field(description="Ever, since spend is counted by key.")
    total_usd: str

    @classmethod
    def of(cls, spent: Mapping[CapPeriod, int]) -> Self:
        return cls(**_cap_document_amounts(spent))


class CapAmounts(CapDocument):
    """The limits as they stand. null: none."""

    day_usd_micros: int | None
    day_usd: str | None
    week_usd_micros: int | None
    week_usd: str | None
    month_usd_micros: int | None
    month_usd: str | None
    total_usd_micros: int | None
    total_usd: str | None

    @classmethod
    def of(cls, limits: CapLimits) -> Self:
        return cls(**_cap_document_amounts(limits))


class Caps(CapDocument):
    caps: CapAmounts
    revision: int = Field(description="Raised by each change; 0 where there never was a cap.", examples=[3])
    enforced: bool = Field(
        description="True: from now on no run is taken past these caps. False: they are stored, and come into force"
        " with the next run, or by asking the same again."
    )

    @classmethod
    def of(cls, limits: CapLimits, revision: int, *, enforced: bool) -> Self:
        return cls(caps=CapAmounts.of(limits), revision=revision, enforced=enforced)


class KeyFacts(CapDocument):
    """A key without its secret."""

    key_id: UUID
    prefix: str = Field(description="Its public half, as lists and logs name it.", examples=["dpp_1a2B3c4D"])
    lineage_id: UUID = Field(description="One for a key and all its rotations: they spend, and are capped, together.")
    label: str | None
    scopes: list[str]
    status: Literal["ACTIVE", "ENDING", "EXPIRED", "REVOKED"] = Field(
        description="ENDING: it has a successor, and works until `expires_at`."
    )
    created_at: datetime
    expires_at: datetime | None = Field(description="When it ends by itself; null means never.")
    revoked_at: datetime | None
    last_used_at: datetime | None
    replaced_by: UUID | None = Field(description="The key that its rotation made.")

    @classmethod
    def of(cls, key: ApiKey) -> Self:
        return cls(**_capped_key_facts(key))


class KeyWithSpending(KeyFacts):
    spent: SpentByKey
    caps: list[CapWindow] = Field(description="Its own caps; the tenant's stand in `GET /v1/budget`.")
    caps_revision: int

    @classmethod
    def made(cls, key: ApiKey, spending: KeySpending) -> Self:
        return cls(
            **_capped_key_facts(key),
            spent=SpentByKey.of(spending.spent),
            caps=[CapWindow.of(one) for one in spending.caps],
            caps_revision=spending.revision,
        )


class TenantKeys(CapDocument):
    keys: list[KeyWithSpending]
    next_cursor: str | None = Field(description="Hand it back as `cursor` for older keys; null at the end.")


class MadeKey(KeyFacts):
    """With the key itself, which is shown this once."""

    key: str = Field(description="The whole key. It is shown only once; store it now.")
    caps: CapAmounts
    caps_revision: int
    enforced: bool = Field(description="Whether its caps are in force; they come with its first run otherwise.")

    @classmethod
    def made(cls, made: KeyMade) -> Self:
        return cls(
            **_capped_key_facts(made.issued.key),
            key=made.issued.plaintext,
            caps=CapAmounts.of(made.limits),
            caps_revision=made.revision,
            enforced=made.enforced,
        )


class BudgetSettings(CapDocument):
    zone: str = Field(description="Its midnight ends a day, a week and a month of spending.", examples=["UTC"])
    low_usd_micros: int | None = Field(description="Below it webhooks hear `budget.low`; null: never.")
    low_usd: str | None

    @classmethod
    def of(cls, tenant: Tenant) -> Self:
        low = tenant.low_balance_usd_micros
        return cls(zone=tenant.zone, low_usd_micros=low, low_usd=None if low is None else format_usd(low))


def _cap_document_amounts(micros: Mapping[CapPeriod, int | None] | Mapping[CapPeriod, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for period in PERIODS:
        amount = micros[period]
        found[f"{period}_usd_micros"] = amount
        found[f"{period}_usd"] = None if amount is None else format_usd(amount)
    return found


def _capped_key_facts(key: ApiKey) -> dict[str, Any]:
    return {
        "key_id": key.key_id,
        "prefix": str(key),
        "lineage_id": key.lineage_id,
        "label": key.label,
        "scopes": key.scopes,
        "status": services.state_of(key, clock.now()),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
        "replaced_by": key.replaced_by_id,
    }
