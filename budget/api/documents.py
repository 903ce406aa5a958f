"""What the budget's addresses take and answer. Amounts stand in micros, exact, and in dollars for people."""

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from budget.api.caps_documents import CapWindow
from budget.caps.reading import CapsStanding
from budget.entries import Entered
from budget.models import LedgerEntry
from budget.money import format_entry_usd, format_usd
from budget.statements import Overview, Statement, StatementLine

_USD = "US dollars with four decimals, rounded down; the micros are exact."


class BudgetDocument(BaseModel):
    model_config = ConfigDict(frozen=True)


class Budget(BudgetDocument):
    """`credited = balance + held + charged`, to the micro."""

    tenant_id: str = Field(examples=["t_demo"])
    balance_usd_micros: int = Field(description="What runs can be submitted for now.", examples=[24_700_000])
    balance_usd: str = Field(description=_USD, examples=["24.7000"])
    held_usd_micros: int = Field(description="Set aside for runs under way.", examples=[250_000])
    held_usd: str = Field(description=_USD, examples=["0.2500"])
    charged_usd_micros: int = Field(description="Taken for runs so far.", examples=[50_000])
    charged_usd: str = Field(description=_USD, examples=["0.0500"])
    credited_usd_micros: int = Field(description="Top-ups and adjustments so far.", examples=[25_000_000])
    credited_usd: str = Field(description=_USD, examples=["25.0000"])
    zone: str = Field(description="Its midnight ends a day, a week and a month of spending.", examples=["UTC"])
    low_usd_micros: int | None = Field(description="Below it webhooks hear `budget.low`; null: never.")
    low_usd: str | None
    caps: list[CapWindow] = Field(description="Every window with a limit: the tenant's, then the asking key's own.")

    @classmethod
    def of(cls, stand: CapsStanding, overview: Overview) -> "Budget":
        low = stand.low_micros
        return cls(
            tenant_id=stand.tenant_id,
            balance_usd_micros=overview.balance_micros,
            balance_usd=format_usd(overview.balance_micros),
            held_usd_micros=overview.held_micros,
            held_usd=format_usd(overview.held_micros),
            charged_usd_micros=overview.charged_micros,
            charged_usd=format_usd(overview.charged_micros),
            credited_usd_micros=overview.credited_micros,
            credited_usd=format_usd(overview.credited_micros),
            zone=stand.zone,
            low_usd_micros=low,
            low_usd=None if low is None else format_usd(low),
            caps=[CapWindow.of(window) for scope in stand.scopes for window in overview.caps[scope]],
        )


class Entry(BudgetDocument):
    """One line of the statement. A credit is positive, a charge negative."""

    entry_id: UUID
    created_at: datetime
    kind: LedgerEntry.Kind
    amount_usd_micros: int = Field(examples=[-50_000])
    amount_usd: str = Field(examples=["-0.0500"])
    balance_after_usd_micros: int = Field(description="The ledger's sum after this entry; holds stand apart from it.")
    run_id: UUID | None
    reference: str | None
    reason: str

    @classmethod
    def of(cls, line: StatementLine) -> "Entry":
        entry = line.entry
        return cls(
            entry_id=entry.entry_id,
            created_at=entry.created_at,
            kind=LedgerEntry.Kind(entry.kind),
            amount_usd_micros=entry.amount_usd_micros,
            amount_usd=format_entry_usd(entry.amount_usd_micros),
            balance_after_usd_micros=line.balance_after_micros,
            run_id=entry.run_id,
            reference=entry.reference,
            reason=entry.reason,
        )


class Entries(BudgetDocument):
    """Newest first. Without a filter by kind, `opening + entries = closing` on every page and over all pages."""

    opening_usd_micros: int = Field(description="The ledger's sum before the last entry shown.")
    closing_usd_micros: int = Field(description="The ledger's sum after the first entry shown.")
    entries: list[Entry]
    next_cursor: str | None = Field(description="Hand it back as `cursor` for older entries; null at the end.")

    @classmethod
    def of(cls, statement: Statement, *, next_cursor: str | None) -> "Entries":
        return cls(
            opening_usd_micros=statement.opening_micros,
            closing_usd_micros=statement.closing_micros,
            entries=[Entry.of(line) for line in statement.lines],
            next_cursor=next_cursor,
        )


class TopUp(BudgetDocument):
    entry_id: UUID
    tenant_id: str
    amount_usd_micros: int
    amount_usd: str
    reference: str = Field(description="The Idempotency-Key.")
    reason: str
    created_at: datetime
    applied: bool = Field(description="False while balances are being rebuilt: it is entered, and applied by itself.")
    balance_usd_micros: int | None = Field(description="The tenant's balance; null where `applied` is false.")

    @classmethod
    def of(cls, entered: Entered) -> "TopUp":
        entry = entered.entry
        return cls(
            entry_id=entry.entry_id,
            tenant_id=entry.tenant_id,
            amount_usd_micros=entry.amount_usd_micros,
            amount_usd=format_usd(entry.amount_usd_micros),
            reference=entry.reference or "",
            reason=entry.reason,
            created_at=entry.created_at,
            applied=entered.balance_micros is not None,
            balance_usd_micros=entered.balance_micros,
        )
