"""What callers may ask for: the statement's query string, and the body of a top-up."""

from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StrictStr

from budget.entries import TEXT_LENGTH_MAX
from budget.ledger import StatementPeriod
from budget.models import LedgerEntry
from budget.money import USD_PATTERN, parse_usd
from dpp_project.http.cursors import CursorParameter


class EntriesQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    limit: Annotated[int, Field(ge=1, le=200, description="Entries on a page.")] = 50
    cursor: CursorParameter = None
    kind: Annotated[LedgerEntry.Kind | None, Field(description="Only such entries.")] = None
    created_from: Annotated[AwareDatetime | None, Field(description="Entered then or later.")] = None
    created_to: Annotated[AwareDatetime | None, Field(description="Entered before.")] = None

    def period(self) -> StatementPeriod:
        return StatementPeriod(self.created_from, self.created_to)


def _an_amount(text: str) -> str:
    parse_usd(text)
    return text


class TopUpRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    amount_usd: Annotated[
        StrictStr,
        AfterValidator(_an_amount),
        Field(
            description="A string with exactly four decimals.",
            examples=["25.0000"],
            json_schema_extra={"pattern": USD_PATTERN},
        ),
    ]
    reason: Annotated[StrictStr, Field(max_length=TEXT_LENGTH_MAX, examples=["Invoice 2026-031"])] = ""

    def amount_micros(self) -> int:
        return parse_usd(self.amount_usd)
