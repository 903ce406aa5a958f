"""What the commands of this app share."""

from typing import Any

from budget.money import AmountInvalid, format_usd, parse_usd
from budget.services import Entered, Refusal
from dpp_project.management.base import Answer, Refused

ACTOR = "command"


def micros_of(text: str, *, signed: bool = False) -> int:
    """`25.0000` from the command line; with a leading minus where the amount may be negative."""
    minus = signed and text.startswith("-")
    try:
        micros = parse_usd(text.removeprefix("-") if minus else text)
    except AmountInvalid as error:
        raise Refused(reason="INVALID", field="amount", detail=str(error)) from None
    return -micros if minus else micros


def entry_answer(answer: Entered | Refusal, *, dry_run: bool) -> Answer:
    if isinstance(answer, Refusal):
        raise Refused(reason=answer.reason.value, field=answer.field, detail=answer.detail)
    entry = answer.entry
    document: dict[str, Any] = {
        "entry_id": str(entry.entry_id),
        "tenant_id": entry.tenant_id,
        "kind": entry.kind,
        "amount_usd_micros": entry.amount_usd_micros,
        "reference": entry.reference,
        "reason": entry.reason,
        "is_new": answer.is_new,
        "balance_usd_micros": answer.balance_micros,
    }
    if answer.balance_micros is not None:
        remark = f"The balance of {entry.tenant_id} is {format_usd(answer.balance_micros)} USD."
    elif dry_run:
        remark = "It would be entered." if answer.is_new else "It is entered already."
    else:
        remark = "Balances are being rebuilt; the entry is applied by itself."
    said = "entered" if answer.is_new else "was entered before"
    return Answer(document, [f"{entry.kind} {entry.amount_usd_micros} micros for {entry.tenant_id} {said}"], [remark])
