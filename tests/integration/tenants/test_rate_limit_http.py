"""Metering as callers see it: headers on every metered answer, 429, and what happens when Redis is away (DPP-10)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_library
from django.test import Client, RequestFactory
from django.urls import URLPattern, URLResolver, get_resolver
from prometheus_client import REGISTRY
from pytest_django import Settings
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from dpp_project.devstack import ports
from dpp_project.http.problems import Problem
from dpp_project.stores import redis
from tenants import rate_limits
from tenants.permissions import ANY_KEY, PUBLIC, is_declared, requirement_of
from tenants.rate_limits import Bucket, bucket_of
from tenants.scopes import Scope
from tests.gear.builders.tenants import a_key, a_tenant, an_operator_key, bearer

pytestmark = [pytest.mark.django_db, pytest.mark.contract("DPP-10")]

WHOAMI = "/v1/whoami"


@pytest.fixture
def redis_away(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody listens where the process looks for Redis."""
    port = ports.choose_port()
    monkeypatch.setattr(rate_limits, "_reporter", rate_limits._Reporter())
    redis.disconnect_redis()
    settings.REDIS_URL = f"redis://127.0.0.1:{port}/0"
    yield
    redis.disconnect_redis()


def counted(mode: str) -> float:
    return REGISTRY.get_sample_value("dpp_rate_limit_failures_total", {"mode": mode}) or 0.0


@pytest.mark.usefixtures("valkey")
def test_rate_limit_headers_count_down(client: Client) -> None:
    headers = bearer(a_key(a_tenant(poll_rate_per_minute=3)))
    seen = [client.get(WHOAMI, headers=headers).headers for _ in range(3)]
    assert [answer["X-RateLimit-Limit"] for answer in seen] == ["3", "3", "3"]
    assert [answer["X-RateLimit-Remaining"] for answer in seen] == ["2", "1", "0"]
    for answer, seconds in zip(seen, (20, 40, 60), strict=True):
        assert seconds - 3 <= int(answer["X-RateLimit-Reset"]) <= seconds
    assert seen[0]["RateLimit-Policy"] == '"poll";q=3;w=60'
    assert seen[0]["RateLimit"] == '"poll";r=2;t=20'


@pytest.mark.usefixtures("valkey")
def test_rate_limit_empty_bucket_is_429_with_everything_it_promises(client: Client) -> None:
    headers = bearer(a_key(a_tenant(poll_rate_per_minute=1)))
    client.get(WHOAMI, headers=headers)
    response = client.get(WHOAMI, headers=headers)
    assert response.status_code == 429
    assert response.json()["reason_code"] == "RATE_LIMITED"
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.headers["Retry-After"] == "30"
    assert response.headers["X-RateLimit-Limit"] == "1"
    assert response.headers["X-RateLimit-Remaining"] == "0"
    assert 1 <= int(response.headers["X-RateLimit-Reset"]) <= 60
    assert response.headers["RateLimit"].startswith('"poll";r=0;t=')


@pytest.mark.usefixtures("valkey")
def test_rate_limit_other_errors_of_a_metered_request_carry_the_headers_too(client: Client) -> None:
    response = client.delete(WHOAMI, headers=bearer(a_key()))
    assert response.status_code == 405
    assert response.headers["X-RateLimit-Remaining"] == "59"


def test_rate_limit_keys_of_one_tenant_share_its_bucket(client: Client, valkey: redis_library.Redis) -> None:
    tenant = a_tenant(poll_rate_per_minute=2)
    statuses = [client.get(WHOAMI, headers=bearer(a_key(tenant))).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert valkey.keys() == [f"rate:{tenant.tenant_id}:poll"]


def test_rate_limit_a_request_without_a_valid_key_draws_from_no_bucket(
    client: Client, valkey: redis_library.Redis
) -> None:
    assert client.get(WHOAMI).status_code == 401
    assert client.get(WHOAMI, headers={"Authorization": "Bearer dpp_abcdefgh_" + "x" * 43}).status_code == 401
    assert valkey.keys() == []


@pytest.mark.usefixtures("redis_away")
def test_rate_limit_open_lets_pass_unmetered_and_says_so(
    client: Client, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.RATE_LIMIT_ON_REDIS_FAILURE = "open"
    headers, before = bearer(a_key()), counted("open")
    answers = [client.get(WHOAMI, headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert not any("X-RateLimit-Limit" in answer.headers for answer in answers)
    assert counted("open") - before == 3
    assert sum("requests pass unmetered" in str(record.msg) for record in caplog.records) == 1


@pytest.mark.usefixtures("redis_away")
def test_rate_limit_closed_answers_503_and_says_so(
    client: Client, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.RATE_LIMIT_ON_REDIS_FAILURE = "closed"
    headers, before = bearer(a_key()), counted("closed")
    answers = [client.get(WHOAMI, headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [503, 503, 503]
    assert answers[0].json()["reason_code"] == "SERVICE_UNAVAILABLE"
    assert int(answers[0].headers["Retry-After"]) > 0
    assert counted("closed") - before == 3
    assert sum("unmetered requests refused" in str(record.msg) for record in caplog.records) == 1


class TwoDoors(APIView):
    required_scopes = {"GET": Scope.RUNS_READ, "POST": Scope.RUNS_WRITE}
    rate_bucket = {"GET": Bucket.POLL, "POST": Bucket.SUBMIT}

    def get(self, _request: Request) -> Response:
        return Response({})

    def post(self, _request: Request) -> Response:
        return Response({})

    def put(self, _request: Request) -> Response:
        raise AssertionError("no scope is declared for PUT")


class Undeclared(APIView):
    def get(self, _request: Request) -> Response:
        raise AssertionError("no scope is declared at all")


class OperatorDoor(APIView):
    required_scopes = Scope.OPERATOR_READ

    def get(self, _request: Request) -> Response:
        raise AssertionError("a tenant's key must not come this far")


class Open(APIView):
    required_scopes = PUBLIC

    def get(self, _request: Request) -> Response:
        return Response({"open": True})


def call(view: type[APIView], method: str, headers: dict[str, str] | None = None) -> Any:
    request = RequestFactory().generic(method, "/v1/x", headers=headers)
    return view.as_view()(request)


def reason_and_detail(response: Any) -> tuple[int, str, str]:
    body = json.loads(response.content)
    return response.status_code, body["reason_code"], body["detail"]


@pytest.mark.contract("DPP-11")
@pytest.mark.usefixtures("valkey")
def test_auth_scope_is_asked_by_method() -> None:
    reader = bearer(a_key(scopes=[Scope.RUNS_READ]))
    assert call(TwoDoors, "GET", reader).status_code == 200
    assert call(TwoDoors, "HEAD", reader).status_code == 200
    status, reason, detail = reason_and_detail(call(TwoDoors, "POST", reader))
    assert (status, reason) == (403, "SCOPE_MISSING")
    assert "`runs:write`" in detail


@pytest.mark.contract("DPP-11")
@pytest.mark.usefixtures("valkey")
def test_auth_a_method_without_a_declaration_is_refused_and_an_unknown_one_is_405() -> None:
    headers = bearer(a_key())
    assert reason_and_detail(call(TwoDoors, "PUT", headers))[:2] == (403, "SCOPE_MISSING")
    assert reason_and_detail(call(TwoDoors, "PATCH", headers))[:2] == (405, "METHOD_NOT_ALLOWED")
    assert reason_and_detail(call(TwoDoors, "PATCH"))[:2] == (401, "AUTH_INVALID")


@pytest.mark.contract("DPP-11")
@pytest.mark.usefixtures("valkey")
def test_auth_a_view_without_a_declaration_is_refused_whatever_the_key() -> None:
    for headers in (bearer(a_key()), bearer(an_operator_key()), None):
        assert reason_and_detail(call(Undeclared, "GET", headers))[:2] == (403, "SCOPE_MISSING")


@pytest.mark.contract("DPP-11")
def test_auth_operator_and_tenant_keys_do_not_open_each_others_doors(valkey: redis_library.Redis) -> None:
    assert reason_and_detail(call(OperatorDoor, "GET", bearer(a_key())))[:2] == (403, "SCOPE_MISSING")
    assert reason_and_detail(call(TwoDoors, "GET", bearer(an_operator_key())))[:2] == (403, "SCOPE_MISSING")
    assert reason_and_detail(call(TwoDoors, "POST", bearer(an_operator_key())))[:2] == (403, "SCOPE_MISSING")
    assert valkey.keys() == [], "a refused request is not metered"


@pytest.mark.usefixtures("valkey")
def test_auth_public_view_needs_no_key_and_is_not_metered(valkey: redis_library.Redis) -> None:
    assert call(Open, "GET").status_code == 200
    assert valkey.keys() == []


@pytest.mark.usefixtures("valkey")
def test_rate_limit_methods_draw_from_the_buckets_they_name(valkey: redis_library.Redis) -> None:
    issued = a_key()
    call(TwoDoors, "POST", bearer(issued))
    assert valkey.keys() == [f"rate:{issued.key.tenant_id}:submit"]


def test_rate_limit_enforce_raises_only_on_an_empty_bucket() -> None:
    request: Any = Request(RequestFactory().get("/v1/x"))
    passed = rate_limits.Decision(Bucket.POLL, 1, allowed=True, remaining=0, reset_seconds=60)
    rate_limits.enforce_rate_limit(request, passed)
    assert request._request.dpp_response_headers == passed.headers()
    with pytest.raises(Problem):
        rate_limits.enforce_rate_limit(
            request, rate_limits.Decision(Bucket.POLL, 1, allowed=False, remaining=0, reset_seconds=60)
        )


def api_views(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, type[APIView]]]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from api_views(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            view = getattr(pattern.callback, "view_class", None) or getattr(pattern.callback, "cls", None)
            if isinstance(view, type) and issubclass(view, APIView):
                yield route, view


@pytest.mark.contract("DPP-11")
def test_auth_every_address_of_the_api_declares_its_scope_and_its_bucket() -> None:
    found = list(api_views(get_resolver().url_patterns))
    assert "v1/whoami" in dict(found)
    for route, view in found:
        methods = [name.upper() for name in view.http_method_names if hasattr(view, name) and name != "options"]
        for method in methods:
            assert is_declared(view, method), f"{route} {method} declares no scope"
            if requirement_of(view, method) is not PUBLIC:
                assert hasattr(view, "rate_bucket"), f"{route} declares no rate bucket"
                assert isinstance(bucket_of(view, method), Bucket)
    assert requirement_of(dict(found)["v1/whoami"], "GET") is ANY_KEY
