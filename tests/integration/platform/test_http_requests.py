"""What a request may look like on its way in: codings, types and methods (DPP-02, DPP-03)."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.gear.builders.shop import RUNS, Shop, a_body, a_request_key
from tests.gear.builders.tenants import bearer

pytestmark = [pytest.mark.contract("DPP-02", "DPP-03")]


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate, gzip"])
def test_dpp_02_a_compressed_body_is_refused_before_it_is_read(shop: Shop, coding: str) -> None:
    response = shop.submit(headers={"Content-Encoding": coding})
    assert (response.status_code, response.json()["reason_code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    shop.nothing_happened()


def test_dpp_02_the_coding_that_changes_nothing_is_let_through(shop: Shop) -> None:
    assert shop.submit(headers={"Content-Encoding": "identity"}).status_code == 202


@pytest.mark.parametrize("given", ["*/*", "application/*", "text/json", "application/vnd.api+json", ""])
def test_dpp_02_what_is_no_json_by_its_type_is_415(shop: Shop, given: str) -> None:
    response: Any = shop.client.post(
        RUNS,
        data=json.dumps(a_body()),
        content_type=given,
        headers=bearer(shop.issued) | {"Idempotency-Key": a_request_key()},
    )
    assert (response.status_code, response.json()["reason_code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    shop.nothing_happened()


@pytest.mark.parametrize("given", ["APPLICATION/JSON", "application/json ; x=y", 'application/json; charset="UTF-8"'])
def test_dpp_02_what_is_json_by_its_type_is_read_however_it_is_written(shop: Shop, given: str) -> None:
    response: Any = shop.client.post(
        RUNS,
        data=json.dumps(a_body()),
        content_type=given,
        headers=bearer(shop.issued) | {"Idempotency-Key": a_request_key()},
    )
    assert response.status_code == 202


@pytest.mark.parametrize("method", ["options", "put", "trace"])
@pytest.mark.parametrize(("path", "allowed"), [(RUNS, "GET, HEAD, POST"), ("/v1/budget", "GET, HEAD, PATCH")])
def test_dpp_03_a_method_that_is_refused_is_not_listed_as_allowed(
    shop: Shop, path: str, allowed: str, method: str
) -> None:
    response = getattr(shop.client, method)(path, headers=bearer(shop.issued))
    assert (response.status_code, response.json()["reason_code"]) == (405, "METHOD_NOT_ALLOWED")
    assert response.headers["Allow"] == allowed


def test_a_request_of_the_api_opens_no_session_and_sets_no_cookie(shop: Shop) -> None:
    """Django's session, login and messages stand before every view, and load nothing until a page asks."""
    shop.client.cookies["sessionid"] = "a" * 32
    with CaptureQueriesContext(connection) as queries:
        response = shop.submit()
    assert response.status_code == 202
    assert [query["sql"] for query in queries if "django_session" in query["sql"]] == []
    assert not response.cookies
    assert "Cookie" not in response.headers.get("Vary", "")
