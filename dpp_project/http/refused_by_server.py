"""How the server that stands before Django has a request refused, in the form of every other answer."""

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from dpp_project.http import problems
from dpp_project.reasons import ReasonCode

REFUSED: Final = "dpp.refused"
"""The environ's name for a Problem. No header of a caller can set it: theirs begin with HTTP_."""
PROVEN: Final = "dpp.proven_tenant"
"""And the name by which Django tells the server whose key it was, once that is authenticated."""


def too_many_of_address(*, per_minute: int, retry_after_seconds: int) -> problems.Problem:
    """For a client without a key that was valid before; the headers are those of a tenant's buckets."""
    return problems.Problem(
        ReasonCode.RATE_LIMITED,
        f"This address may make {per_minute} requests a minute without a valid key.",
        headers={
            "Retry-After": str(retry_after_seconds),
            "X-RateLimit-Limit": str(per_minute),
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": str(retry_after_seconds),
            "RateLimit-Policy": f'"address";q={per_minute};w=60',
            "RateLimit": f'"address";r=0;t={retry_after_seconds}',
        },
    )


class RefusedByServer:
    """Innermost, so that trace id, headers, log line and metric are as always. No view runs."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        refused: problems.Problem | None = request.META.get(REFUSED)
        return self.get_response(request) if refused is None else problems.problem_response(request, refused)
