"""The statement as CSV: opening line, every entry oldest first, closing line, streamed as it is read."""

from collections.abc import Iterator
from typing import Final

from budget import csv_lines, ledger, statements
from budget.ledger import StatementPeriod
from budget.money import format_exact_usd

HEADER: Final = (
    *("created_at", "kind", "amount_usd_micros", "amount_usd", "balance_after_usd_micros"),
    *("entry_id", "run_id", "reference", "reason"),
)


def statement_csv_rows(tenant_id: str, period: StatementPeriod) -> Iterator[str]:
    """Opening + entries = closing, also while entries are added: closing is the sum of the entries written.

    Up to the moment before which no entry can appear any more: another statement of this period says the same.
    """
    period = period.before(ledger.settled_until())
    write = csv_lines.csv_line
    opening = closing = statements.opening_of(tenant_id, period)
    yield write(HEADER)
    yield write(("", "OPENING", "", "", opening, "", "", "", ""))
    for line in statements.lines_oldest_first(tenant_id, period, opening_micros=opening):
        entry, closing = line.entry, line.balance_after_micros
        yield write(
            (
                entry.created_at.isoformat(),
                entry.kind,
                entry.amount_usd_micros,
                format_exact_usd(entry.amount_usd_micros),
                closing,
                entry.entry_id,
                entry.run_id or "",
                csv_lines.harmless_csv_cell(entry.reference or ""),
                csv_lines.harmless_csv_cell(entry.reason),
            )
        )
    yield write(("", "CLOSING", "", "", closing, "", "", "", ""))
