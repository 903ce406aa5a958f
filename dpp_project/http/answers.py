"""Headers that an answer must carry whatever it turns out to be, errors included."""

from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpRequest

COST_RESERVED: Final = "X-DPP-Cost-Reserved"
COST_USED: Final = "X-DPP-Cost-Used"
BUDGET_REMAINING: Final = "X-DPP-Budget-Remaining"
TOKENS_CONSUMED: Final = "X-DPP-Tokens-Consumed"

COSTS_UNKNOWN: Final = {
    COST_RESERVED: "0.0000",
    COST_USED: "0.0000",
    BUDGET_REMAINING: "0.0000",
    TOKENS_CONSUMED: "0",
}


def promise(request: HttpRequest, headers: Mapping[str, str]) -> None:
    """Put these headers on the answer to come; the middleware does so for every answer, errors included."""
    view_of_request: Any = request
    view_of_request.dpp_response_headers = {**getattr(request, "dpp_response_headers", {}), **headers}


def note(request: HttpRequest, **facts: object) -> None:
    """Say this in the one log line of the request."""
    view_of_request: Any = request
    view_of_request.dpp_log_facts = {**getattr(request, "dpp_log_facts", {}), **facts}


def tells_costs(request: HttpRequest) -> bool:
    """DPP-24: every GET and POST of the API does, with zeros where nothing is known."""
    return request.path.startswith("/v1/") and request.method in {"GET", "HEAD", "POST"}
