"""What the commands of this app share."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from budget.entries import Entered
from budget.money import AmountInvalid, format_usd, parse_usd
from budget.rebuild.evidence import LedgerBehind
from dpp_project.management.base import CommandAnswer, CommandRefused, unless_refused
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid


def micros_of(text: str, *, signed: bool = False) -> int:
    """`25.0000` from the command line; with a leading minus where the amount may be negative."""
    minus = signed and text.startswith("-")
    try:
        micros = parse_usd(text.removeprefix("-") if minus else text)
    except AmountInvalid as error:
        raise CommandRefused(invalid("amount", str(error))) from None
    return -micros if minus else micros


def entry_answer(answer: Entered | Refusal, *, dry_run: bool) -> CommandAnswer:
    entered = unless_refused(answer)
    entry = entered.entry
    document: dict[str, Any] = {
        "entry_id": str(entry.entry_id),
        "tenant_id": entry.tenant_id,
        "kind": entry.kind,
        "amount_usd_micros": entry.amount_usd_micros,
        "reference": entry.reference,
        "reason": entry.reason,
        "is_new": entered.is_new,
        "balance_usd_micros": entered.balance_micros,
    }
    if entered.balance_micros is not None:
        remark = f"The balance of {entry.tenant_id} is {format_usd(entered.balance_micros)} USD."
    elif dry_run:
        remark = "Nothing is entered." if entered.is_new else "It is entered already."
    else:
        remark = "Balances are being rebuilt; the entry is applied by itself."
    said = "was entered before" if not entered.is_new else "would be entered" if dry_run else "entered"
    return CommandAnswer(
        document, [f"{entry.kind} {entry.amount_usd_micros} micros for {entry.tenant_id} {said}"], [remark]
    )


@contextmanager
def behind_is_refused() -> Iterator[None]:
    """A Postgres that went back in time is an answer, and says what to do."""
    try:
        yield
    except LedgerBehind as behind:
        cure = "bring the right Postgres back, or accept the loss by accept_ledger_loss (docs/operations.md)"
        raise CommandRefused(Refusal(ReasonCode.CONFLICT, f"{behind}; {cure}", "ledger")) from None
