"""How long a client asks to wait for what it reads: `?wait=N`, or `Prefer: wait=N` (RFC 7240)."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from pydantic import BaseModel, ConfigDict, Field
from rest_framework.request import Request

from dpp_project.constants import WAIT_SECONDS_MAX
from dpp_project.http.bodies import read_query
from dpp_project.waiting.places import RETRY_AFTER_SECONDS

_PREFERENCE: Final = re.compile(r"(?:^|,)\s*wait\s*=\s*\"?([0-9]+)\"?\s*(?=[,;]|$)", re.IGNORECASE)


class WaitQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    wait: Annotated[
        int | None,
        Field(ge=1, le=WAIT_SECONDS_MAX, description="Wait up to so many seconds for the end of what is read."),
    ] = None


@dataclass(frozen=True)
class AskedToWait:
    seconds: int
    preferred: bool = False
    """By the Prefer header, which wants to be told that it was heeded."""

    def tell(self, response: HttpResponse, *, heeded: bool) -> HttpResponse:
        """`heeded` is False where there was no place to wait in; the client may ask again soon."""
        if not heeded:
            response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
        elif self.preferred:
            response.headers["Preference-Applied"] = f"wait={self.seconds}"
        return response


def asked_to_wait(request: Request) -> AskedToWait | None:
    """The address comes before the header. A preference that says no whole seconds is none, as the RFC has it, and one
    for longer than that is heeded as far as it can be.
    """
    query = read_query(request, WaitQuery)
    if query.wait is not None:
        return AskedToWait(query.wait)
    found = _PREFERENCE.search(request.headers.get("Prefer", "")[:1_000])
    seconds = min(int(found[1]), WAIT_SECONDS_MAX) if found else 0
    return AskedToWait(seconds, preferred=True) if seconds else None


def headers_of_waiting(status: int = 200) -> list[Any]:
    """For the OpenAPI document, beside the query's parameter."""
    return [
        OpenApiParameter(
            "Prefer",
            {"type": "string", "examples": ["wait=20"]},
            OpenApiParameter.HEADER,
            description="`wait=N` does what the parameter `wait` does, up to 55 seconds.",
        ),
        OpenApiParameter(
            "Preference-Applied",
            OpenApiTypes.STR,
            OpenApiParameter.HEADER,
            description="`wait=N` where Prefer asked for it and the server waited, or did not need to.",
            response=[status],
        ),
        OpenApiParameter(
            "Retry-After",
            OpenApiTypes.STR,
            OpenApiParameter.HEADER,
            description="Present where too many wait already: nothing was waited for, ask again after so many seconds.",
            response=[status],
        ),
    ]
