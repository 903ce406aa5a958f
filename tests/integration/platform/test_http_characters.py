"""Characters that no store of ours takes, at every address, in every parameter and header: never a 500.

Postgres takes no NUL in a text, and UTF-8 no lone surrogate; a view that passes one on answers 500 for a caller's slip.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.db.models import BinaryField
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from redis import Redis

from budget.models import LedgerEntry
from tenants.models import Tenant
from tenants.scopes import OPERATOR_TENANT_ID
from tests.gear.builders import workspace_rows
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import an_operator_key, bearer
from tests.gear.builders.workspace_rows import sold

__all__ = ["sold"]

pytestmark = pytest.mark.contract("HRD-08")

CHARACTERS = ("%00", "t_x%00", "%0A", "%7F", "%C2%85", "%ED%A0%80", "%FF")
"""NUL, other control characters, a lone surrogate as CESU writes it, and no UTF-8 at all."""
HEADERS = (
    *("Idempotency-Key", "X-Trace-Id", "Traceparent", "Authorization", "Accept", "Accept-Language"),
    *("X-Forwarded-For", "User-Agent", "Origin", "Cookie"),
)
KEY = "a-key-of-20-or-fewer"


def routes(patterns: list[Any], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield route


def filled(route: str, text: str) -> str:
    return "/" + re.sub(r"<[^>]+>", text, route)


@pytest.fixture
def operator(shop: Shop) -> dict[str, str]:
    key = an_operator_key()
    Tenant.objects.filter(pk=OPERATOR_TENANT_ID).update(poll_rate_per_minute=60_000, submit_rate_per_minute=60_000)
    return bearer(key)


def test_an_address_with_such_a_character_is_not_found(shop: Shop, operator: dict[str, str]) -> None:
    # Pages ask who it is first, and a hook for its signature; both have tests of their own.
    others = ("admin/", "account/", "api/automations/hooks/")
    named = [route for route in routes(get_resolver().url_patterns) if "<" in route and not route.startswith(others)]
    assert len(named) >= 5
    found = set()
    turns = itertools.cycle(CHARACTERS)
    for path in (filled(route, text) for route in named for text in {"%00", next(turns), next(turns)}):
        for headers in (bearer(shop.issued), operator):
            found.add(shop.client.get(path, headers=headers).status_code)
            sent: dict[str, Any] = {"data": '{"amount_usd": "1.0000"}', "content_type": "application/json"}
            found.add(shop.client.post(path, headers=headers | {"Idempotency-Key": KEY}, **sent).status_code)
    assert found == {403, 404, 405, 422}, "422: of a concurrency key, whose form is named"
    assert not LedgerEntry.objects.filter(reference=KEY).exists()


@pytest.mark.usefixtures("sold")
def test_a_query_with_such_a_character_is_refused_by_name(shop: Shop, operator: dict[str, str]) -> None:
    document = shop.client.get("/v1/openapi.json").json()
    parameters = [
        (path, parameter["name"])
        for path, operations in document["paths"].items()
        for parameter in operations.get("get", {}).get("parameters", [])
        if parameter["in"] == "query"
    ]
    assert len(parameters) >= 13
    workspace = str(workspace_rows.one_for("logs", shop.tenant).pk)
    for path, name in parameters:
        headers = operator if path.startswith("/api/") else bearer(shop.issued)
        path = path.replace("{workspace_id}", workspace)  # noqa: PLW2901
        for text in CHARACTERS:
            answer = shop.client.get(f"{path}?{name}={text}", headers=headers)
            assert (answer.status_code, [error["field"] for error in answer.json()["errors"]]) == (
                422,
                [f"query.{name}"],
            ), text
            assert shop.client.get(f"{path}?{text}=1", headers=headers).status_code == 422


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_with_such_a_character_breaks_nothing(shop: Shop, name: str) -> None:
    for value in ("\x00", "a-key-\x00-of-it", "\x7f" * 10, "\xed\xa0\x80-a-lone-one", "\xff\xfe" * 4):
        sent = {name: f"Bearer {value}" if name == "Authorization" else value}
        for path in ("/v1/runs", "/v1/budget/entries", "/healthz", "/docs/"):
            assert shop.client.get(path, headers=bearer(shop.issued) | sent).status_code < 500, (path, value)
        before = len(shop.runs())
        answer = shop.submit(headers=sent)
        assert answer.status_code in {202, 401, 406, 422}
        assert len(shop.runs()) - before == (answer.status_code == 202)


def console_addresses() -> Iterator[str]:
    """Each page of each model, and one lookup for each kind of column: Django reads them all in one way."""
    kinds: dict[type, str] = {}
    for model, page in admin.site._registry.items():
        at = f"admin/{model._meta.app_label}/{model._meta.model_name}/"
        yield from (f"{at}<id>/{page}" for page in ("", "change/", "history/", "delete/"))
        yield from (f"{at}?{name}=<text>" for name in ("q", "p"))
        kinds |= {type(field): f"{at}?{field.name}=<text>" for field in model._meta.fields}
        yield from (f"{at}{route}" for route in routes(page.get_urls()) if "<" in route and route.count("/") > 2)
    yield from (address for kind, address in kinds.items() if kind is not BinaryField)
    yield f"{at}?<name>=1"
    yield "admin/login/?next=<text>"
    yield "admin/search/?s=<text>"


@pytest.mark.django_db(transaction=True)
def test_the_console_answers_such_a_character_without_a_500(console: Client, valkey: Redis) -> None:
    console.raise_request_exception = False
    texts = itertools.cycle(("%00", "%ED%A0%80", "9" * 30))
    addresses = [filled(address, next(texts)) for address in console_addresses()]
    assert len(addresses) >= 100
    assert [address for address in addresses if console.get(address).status_code >= 500] == []


@pytest.mark.django_db(transaction=True)
def test_a_form_of_the_console_with_a_nul_is_refused(console: Client, valkey: Redis) -> None:
    console.raise_request_exception = False
    for model, page in admin.site._registry.items():
        at = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        for action in page.actions or ():
            name = action if isinstance(action, str) else action.__name__
            sent = {"action": name, "_selected_action": "\x00", "index": "0", "reason": "\x00"}
            assert console.post(at, sent).status_code < 500, (at, name)
