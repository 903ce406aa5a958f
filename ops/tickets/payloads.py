"""What each type of ticket carries. No secret ever: a key is named by its prefix or its id."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr

from budget.entries import TEXT_LENGTH_MAX
from budget.money import USD_PATTERN, checked_credit_micros, parse_usd
from tenants.models import TENANT_ID_PATTERN

_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_KEY = rf"^dpp_[0-9A-Za-z]{{8}}$|{_UUID}"

TenantId = Annotated[StrictStr, Field(pattern=TENANT_ID_PATTERN, examples=["t_demo"])]


def _ticket_usd_amount(text: str) -> str:
    parse_usd(text)
    return text


def _a_signed_amount(text: str) -> str:
    signed_micros(text)
    return text


def signed_micros(text: str) -> int:
    """`25.0000`, or with a minus before it."""
    micros = parse_usd(text.removeprefix("-"))
    return checked_credit_micros(-micros if text.startswith("-") else micros)


def _printable_ticket_text(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable characters")
    return text


PayloadText = Annotated[StrictStr, AfterValidator(_printable_ticket_text), Field(max_length=TEXT_LENGTH_MAX)]


class TicketPayload(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OfTenant(TicketPayload):
    tenant_id: TenantId


class TopUpPayload(OfTenant, title="TopUp"):  # its name in the OpenAPI document
    amount_usd: Annotated[
        StrictStr,
        AfterValidator(_ticket_usd_amount),
        Field(
            description="A string with exactly four decimals.",
            examples=["25.0000"],
            json_schema_extra={"pattern": USD_PATTERN},
        ),
    ]
    reason: Annotated[PayloadText, Field(description="Shown to the tenant.")] = ""


class Adjust(OfTenant):
    amount_usd: Annotated[
        StrictStr,
        AfterValidator(_a_signed_amount),
        Field(
            description="As for a top-up, with a minus where it takes away.",
            examples=["-1.0000"],
            json_schema_extra={"pattern": USD_PATTERN.replace("^", "^-?", 1)},
        ),
    ]
    reason: Annotated[PayloadText, Field(min_length=1, pattern=r"\S")]


class Rebuild(TicketPayload):
    tenant_id: Annotated[TenantId | None, Field(description="null: every tenant, under a new epoch.")] = None


class RevokeKey(TicketPayload):
    key: Annotated[
        StrictStr, Field(pattern=_KEY, description="Its prefix or id, never the key.", examples=["dpp_a1b2c3d4"])
    ]


class Redrive(TicketPayload):
    letter: Annotated[StrictInt, Field(ge=1, le=2**63 - 1, examples=[7])]


class CancelRun(OfTenant):
    run_id: Annotated[StrictStr, Field(pattern=_UUID)]


class RefundDispute(TicketPayload):
    run_id: Annotated[StrictStr, Field(pattern=_UUID, description="A disputed run.")]
    reason: Annotated[PayloadText, Field(min_length=1, pattern=r"\S", description="Shown to the tenant.")]
