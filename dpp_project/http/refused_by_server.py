"""How the server that stands before Django has a request refused, in the form of every other answer."""

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from dpp_project.http import problems

REFUSED: Final = "dpp.refused"
"""The environ's name for a Problem. No header of a caller can set it: theirs begin with HTTP_."""


class RefusedByServer:
    """Innermost, so that trace id, headers, log line and metric are as always. No view runs."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        refused: problems.Problem | None = request.META.get(REFUSED)
        return self.get_response(request) if refused is None else problems.response(request, refused)
