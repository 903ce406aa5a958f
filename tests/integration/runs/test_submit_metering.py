"""A wrong body costs its sender what a right one does; one that cannot be paid for is not even read (HRD-12)."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver, resolve
from redis import Redis
from rest_framework.views import APIView

from dpp_project.http import parsers
from dpp_project.stores import redis
from tenants.models import Tenant
from tests.gear.builders.shop import RUNS, Shop, a_request_key
from tests.gear.builders.tenants import a_key, an_operator_key, bearer
from tests.integration.tenants.test_rate_limit_http import api_views

pytestmark = [pytest.mark.django_db, pytest.mark.contract("HRD-12")]

SOME = "01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e"
HOOK, CLUSTER, ERROR = f"/v1/webhooks/{SOME}", f"/api/auth-errors/clusters/{SOME}", f"/api/auth-errors/{SOME}"
KEY, WORKSPACE = f"/v1/keys/{SOME}", f"/v1/workspaces/{SOME}"
RULES, SOURCES = "/api/automations/rules", "/api/automations/sources"
OF_TENANTS = (
    *(RUNS, "/v1/runs/estimate", "/v1/uploads", "/v1/webhooks", HOOK, f"{HOOK}/recover"),
    *("/v1/budget", "/v1/budget/caps", "/v1/keys", f"{KEY}/rotate", f"{KEY}/caps"),
    *("/v1/workspaces", WORKSPACE, f"{WORKSPACE}/undelete", f"{WORKSPACE}/recover", f"{WORKSPACE}/exec"),
    *(f"{WORKSPACE}/links", "/v1/concurrency/a-key"),
)
OF_OPERATORS = (
    *("/v1/tenants/t_x/topups", "/api/tickets", "/api/tickets/reaper/run"),
    *(f"{ERROR}/decisions", f"{CLUSTER}/decisions", f"{CLUSTER}/merge"),
    *(RULES, f"{RULES}/try", f"{RULES}/{SOME}", SOURCES, f"{SOURCES}/a-source", f"{SOURCES}/a-source/rotate"),
)
METHODS = {
    **dict.fromkeys((HOOK, WORKSPACE, "/v1/budget", f"{RULES}/{SOME}", f"{SOURCES}/a-source"), "PATCH"),
    **dict.fromkeys(("/v1/budget/caps", f"{KEY}/caps", "/v1/concurrency/a-key"), "PUT"),
}
"""Where it is not POST."""
WITHOUT_BODY = (
    "v1/runs/<str:run_id>/cancel",
    "v1/keys/<str:key_id>/revoke",
    "v1/webhooks/<str:webhook_id>/rotate",
    "v1/webhooks/<str:webhook_id>/test",
    "v1/webhooks/deliveries/<str:delivery_id>/redeliver",
    "api/auth-errors/clusters/<str:cluster_id>/unmerge",
    "api/automations/events/<str:event>/again",
    *(f"api/automations/sources/<str:source>/{act}" for act in ("pause", "resume", "look")),
)
WITH_A_BUCKET_OF_ITS_OWN = ("api/auth-errors",)
"""Reports of errors, which tests/integration/ops shows."""
BY_ITS_BODY = ("mcp",)
"""Its body says which bucket it takes a token of, which tests/integration/mcp/test_mcp_tools.py shows."""
WRONG = {"no JSON": b"{", "wrong fields": b'{"a": 1}'}


def takes_bodies(view: type[APIView]) -> bool:
    return any(hasattr(view, method) for method in ("post", "put", "patch"))


def test_hrd_12_no_address_that_takes_a_body_is_left_out() -> None:
    found = {route for route, view in api_views(get_resolver().url_patterns) if takes_bodies(view)}
    listed = {resolve(path).route for path in (*OF_TENANTS, *OF_OPERATORS)}
    assert found - {*WITHOUT_BODY, *WITH_A_BUCKET_OF_ITS_OWN, *BY_ITS_BODY} == listed


@pytest.fixture(autouse=True)
def _buckets_are_full_again(valkey: Redis) -> Iterator[None]:
    """The operators' bucket is that of every test of this process."""
    yield
    valkey.flushall()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every body that was parsed."""
    found: list[bytes] = []
    parse = parsers.parse_json

    def noting(body: bytes, **rules: bool) -> Any:
        found.append(body)
        return parse(body, **rules)

    monkeypatch.setattr(parsers, "parse_json", noting)
    return found


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("path", [*OF_TENANTS, *OF_OPERATORS])
def test_hrd_12_a_wrong_body_costs_a_token_and_without_one_is_not_parsed(
    client: Client, parsed: list[bytes], path: str, wrong: str
) -> None:
    issued = an_operator_key() if path in OF_OPERATORS else a_key()
    Tenant.objects.filter(pk=issued.key.tenant_id).update(submit_rate_per_minute=1, poll_rate_per_minute=1)
    answers = [
        client.generic(
            METHODS.get(path, "POST"),
            path,
            data=WRONG[wrong],
            content_type="application/json",
            headers=bearer(issued) | {"Idempotency-Key": a_request_key()},
        )
        for _ in range(3)
    ]
    assert answers[0].status_code in {400, 404, 422}
    assert [answer.json()["reason_code"] for answer in answers[1:]] == ["RATE_LIMITED"] * 2
    assert parsed == [WRONG[wrong]]


def test_hrd_12_a_wrong_submit_gives_its_lock_back(shop: Shop) -> None:
    key = a_request_key()
    assert shop.submit({"a": 1}, key=key).status_code == 422
    shop.nothing_happened()
    assert shop.submit(key=key).status_code == 202


def test_hrd_12_a_wrong_submit_leaves_the_lock_of_another_alone(shop: Shop) -> None:
    key = a_request_key()
    lock = f"idem_lock:{shop.tenant.tenant_id}:{key}"
    redis.redis_client().set(lock, "another's")
    assert shop.submit({"a": 1}, key=key).status_code == 422
    assert redis.redis_client().get(lock) == "another's"


def test_hrd_12_a_submit_without_a_name_costs_a_token_too(shop: Shop, parsed: list[bytes]) -> None:
    Tenant.objects.filter(pk=shop.tenant.pk).update(submit_rate_per_minute=1)
    assert [shop.submit(key="short").status_code for _ in range(2)] == [422, 429]
    assert parsed == []
    shop.nothing_happened()
