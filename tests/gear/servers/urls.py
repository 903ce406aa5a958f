"""The product's addresses plus a few that go wrong in every way a view can."""

from collections.abc import Callable
from typing import Any, Literal

import psycopg_pool
import redis
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from pydantic import BaseModel, ConfigDict, Field
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from dpp_project.http.bodies import read_body, read_query
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode
from dpp_project.urls import handler400, handler403, handler404, handler500
from dpp_project.urls import urlpatterns as product_urls

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]

CANARY = "canary-in-an-exception"

FAILURES: dict[str, Callable[[], Exception]] = {
    "problem": lambda: Problem(
        ReasonCode.CONFLICT, "It stands in the way.", run_id="r-1", headers={"Retry-After": "7"}
    ),
    "http404": lambda: Http404(CANARY),
    "denied": lambda: PermissionDenied(CANARY),
    "suspicious": lambda: SuspiciousOperation(CANARY),
    "toobig": lambda: RequestDataTooBig(CANARY),
    "value": lambda: ValueError(CANARY),
    "recursion": lambda: RecursionError(CANARY),
    "database": lambda: OperationalError(CANARY),
    "interface": lambda: InterfaceError(CANARY),
    "pool": lambda: psycopg_pool.PoolTimeout(CANARY),
    "redis": lambda: redis.ConnectionError(CANARY),
    "drf_validation": lambda: exceptions.ValidationError({"a": [CANARY]}),
    "drf_parse": lambda: exceptions.ParseError(CANARY),
    "drf_auth": lambda: exceptions.AuthenticationFailed(CANARY),
    "drf_throttled": exceptions.Throttled,
}


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    amount: int = Field(ge=1)


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=5)
    mode: Literal["a", "b"] = "a"
    inner: list[Inner] = []


class Query(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limit: int = 10


class Fails(APIView):
    authentication_classes: Any = ()
    permission_classes: Any = ()
    throttle_classes: Any = ()

    def get(self, request: Request, kind: str) -> Response:
        raise FAILURES[kind]()  # noqa: RSE102  it makes the exception


class Echo(APIView):
    authentication_classes: Any = ()
    permission_classes: Any = ()
    throttle_classes: Any = ()
    reads_query = frozenset({"GET"})

    def get(self, request: Request) -> Response:
        return Response(read_query(request, Query).model_dump())

    def post(self, request: Request) -> Response:
        return Response(read_body(request, Body).model_dump())


def plain_failure(request: HttpRequest, kind: str) -> HttpResponse:
    raise FAILURES[kind]()  # noqa: RSE102  it makes the exception


urlpatterns = [
    *product_urls,
    path("v1/tests/echo", Echo.as_view()),
    path("v1/tests/fails/<str:kind>", Fails.as_view()),
    path("v1/tests/plain/<str:kind>", plain_failure),
]
