"""How much money one person may move alone: DPP_SOLO_LIMIT_USD, the same at every door. Above it a ticket asks two."""

from django.conf import settings

from budget.money import MICROS_PER_STEP, MICROS_PER_USD, format_usd
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal


def limit_micros() -> int:
    """Above MAX_MICROS it bounds nothing."""
    dollars, _, steps = settings.SOLO_LIMIT_USD.partition(".")
    return int(dollars) * MICROS_PER_USD + int(steps) * MICROS_PER_STEP


def is_above(amount_micros: int) -> bool:
    """Either way: what is taken counts as what is given."""
    return abs(amount_micros) > limit_micros()


def solo_limit_fault(amount_micros: int, *, field: str, ticket_type: str, approved_by: str | None) -> Refusal | None:
    """The refusal of an act that moves more than one person may, unless a second person has approved it."""
    if approved_by is not None or not is_above(amount_micros):
        return None
    return Refusal(
        ReasonCode.APPROVAL_REQUIRED,
        f"moves more than {format_usd(limit_micros())} USD, which one person may not; "
        f"open a {ticket_type} ticket and have another operator approve it",
        field,
    )
