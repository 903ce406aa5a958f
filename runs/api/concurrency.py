"""`/v1/concurrency/{key}`: how many of a tenant's runs with this concurrency key are at work at once (DPP-98)."""

import re
from typing import Annotated, Final

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample, extend_schema
from pydantic import BaseModel, ConfigDict, Field
from rest_framework.request import Request

from dpp_project.http.bodies import read_body
from dpp_project.http.openapi import answer_example, cost_headers, openapi_refusals
from dpp_project.http.problems import FieldError, Problem
from dpp_project.reasons import ReasonCode
from runs.api.metering import MeteredView
from runs.metadata import CONCURRENCY_KEY, CONCURRENCY_MAX
from runs.submit import concurrency_limits
from runs.submit.concurrency_limits import KeyState, TooManyLimits
from tenants.permissions import owner_of, principal_of
from tenants.rate_limits import Bucket
from tenants.scopes import Scope


class ConcurrencyChange(BaseModel):
    """How many may be at work at once."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    limit: Annotated[int, Field(ge=1, le=CONCURRENCY_MAX, description="1 is what a key without a limit has.")]


class ConcurrencyState(BaseModel):
    """A concurrency key as it stands."""

    model_config = ConfigDict(frozen=True)

    key: str = Field(examples=["customer-4711"])
    limit: int = Field(description="So many of its runs are at work at once.")
    at_work: int
    waiting: int = Field(description="Its runs that wait for a worker, or for a place.")


_EXAMPLE: Final = {"key": "customer-4711", "limit": 3, "at_work": 3, "waiting": 12}


class ConcurrencyView(MeteredView):
    required_scopes: Final = {"GET": Scope.RUNS_READ, "PUT": Scope.RUNS_WRITE}
    rate_bucket: Final = {"GET": Bucket.POLL, "PUT": Bucket.SUBMIT}

    @extend_schema(
        operation_id="readConcurrency",
        summary="How many runs of a key are at work at once",
        tags=["Runs"],
        parameters=cost_headers(),
        responses={200: ConcurrencyState},
        examples=[answer_example("Three at a time", _EXAMPLE, 200)],
    )
    def get(self, request: Request, key: str) -> HttpResponse:
        """Any key can be read: one that no run has named has the limit 1."""
        return _concurrency_state_response(
            concurrency_limits.read_key(principal_of(request).tenant_id, _checked_concurrency_key(key))
        )

    @extend_schema(
        operation_id="setConcurrency",
        summary="Set how many runs of a key are at work at once",
        tags=["Runs"],
        request=ConcurrencyChange,
        parameters=cost_headers(),
        responses={200: ConcurrencyState, **openapi_refusals(ReasonCode.CONFLICT)},
        examples=[
            OpenApiExample("Three at a time", value={"limit": 3}, request_only=True),
            answer_example("As it stands then", _EXAMPLE, 200),
        ],
    )
    def put(self, request: Request, key: str) -> HttpResponse:
        """Safe to repeat. Runs at work go on; where there is room now, the next start."""
        asked = read_body(request, ConcurrencyChange)
        try:
            state = concurrency_limits.set_limit(
                principal_of(request).tenant_id,
                _checked_concurrency_key(key),
                limit=asked.limit,
                actor=owner_of(request),
            )
        except TooManyLimits:
            most = concurrency_limits.LIMITS_MOST
            raise Problem(
                ReasonCode.CONFLICT, f"{most} keys have a limit of their own, which is the most; set one of them to 1."
            ) from None
        return _concurrency_state_response(state)


def _checked_concurrency_key(key: str) -> str:
    if re.fullmatch(CONCURRENCY_KEY, key) is None:
        said = FieldError("key", "must be 1 to 64 of A-Z a-z 0-9 _ . : -")
        raise Problem(ReasonCode.VALIDATION_FAILED, "The request has wrong fields; see errors.", errors=[said])
    return key


def _concurrency_state_response(state: KeyState) -> HttpResponse:
    document = ConcurrencyState(key=state.key, limit=state.limit, at_work=state.at_work, waiting=state.waiting)
    return HttpResponse(document.model_dump_json(), content_type="application/json")
