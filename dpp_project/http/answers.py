"""Headers that an answer must carry whatever it turns out to be, errors included."""

from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpRequest

COST_RESERVED: Final = "X-DPP-Cost-Reserved"
COST_USED: Final = "X-DPP-Cost-Used"
BUDGET_REMAINING: Final = "X-DPP-Budget-Remaining"
TOKENS_CONSUMED: Final = "X-DPP-Tokens-Consumed"
BUDGET_KNOWN: Final = "X-DPP-Budget-Known"
COST_RESERVED_MICROS: Final = "X-DPP-Cost-Reserved-USD-Micros"
COST_USED_MICROS: Final = "X-DPP-Cost-Used-USD-Micros"
BUDGET_REMAINING_MICROS: Final = "X-DPP-Budget-Remaining-USD-Micros"

COSTS_UNKNOWN: Final = {
    COST_RESERVED: "0.0000",
    COST_USED: "0.0000",
    BUDGET_REMAINING: "0.0000",
    TOKENS_CONSUMED: "0",
    BUDGET_KNOWN: "0",
    COST_RESERVED_MICROS: "0",
    COST_USED_MICROS: "0",
    BUDGET_REMAINING_MICROS: "0",
}


def promise_headers(request: HttpRequest, headers: Mapping[str, str]) -> None:
    """Put these headers on the answer to come; the middleware does so for every answer, errors included."""
    view_of_request: Any = request
    view_of_request.dpp_response_headers = {**getattr(request, "dpp_response_headers", {}), **headers}


def balance_headers(usd: str, micros: int | None) -> dict[str, str]:
    """Of a balance as it is written; None is one that is not known."""
    return {
        BUDGET_REMAINING: usd,
        BUDGET_REMAINING_MICROS: str(micros or 0),
        BUDGET_KNOWN: "0" if micros is None else "1",
    }


def note_for_log(request: HttpRequest, **facts: object) -> None:
    """Say this in the one log line of the request."""
    view_of_request: Any = request
    view_of_request.dpp_log_facts = {**getattr(request, "dpp_log_facts", {}), **facts}


def tells_costs(request: HttpRequest) -> bool:
    """DPP-24: every GET and POST of the API does, and what else changes something; zeros where nothing is known."""
    return request.path.startswith("/v1/") and request.method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
