"""What is answered while nobody can say what there is."""

from typing import Final

from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode

RETRY_AFTER_SECONDS: Final = 2


def budget_unavailable() -> Problem:
    return Problem(
        ReasonCode.BUDGET_UNAVAILABLE,
        "Balances are being rebuilt from the ledger.",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )
