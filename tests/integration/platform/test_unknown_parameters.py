"""A query parameter that an address does not know is refused, at every address of the API (DPP-02, DPP-71)."""

import inspect
import re
from typing import Any

import pytest
from django.urls import get_resolver

from dpp_project.http.views import ApiView
from runs.models import Run
from tests.acceptance.test_isolation_matrix import all_routes
from tests.gear.builders.shop import RUNS, Shop, a_body
from tests.gear.builders.tenants import bearer

pytestmark = pytest.mark.contract("DPP-02")

ROUTES = [(route, view) for route, view in all_routes(get_resolver().url_patterns) if isinstance(view, type)]
READS = re.compile(r"\b(?:read_query|asked_to_wait)\(")
VIEWS = {view for _, view in ROUTES if issubclass(view, ApiView)}


def test_dpp_02_an_address_reads_its_query_or_refuses_it() -> None:
    """One that reads it undeclared would refuse its own; one that declares it and does not read would take any."""
    assert len(VIEWS) > 30
    for view in VIEWS:
        methods = {name.upper() for name in view.http_method_names if hasattr(view, name)}
        reading = {name for name in methods if READS.search(inspect.getsource(getattr(view, name.lower())))}
        assert reading == set(view.reads_query), view


def test_dpp_02_every_address_with_a_key_is_such_a_view() -> None:
    rest = {
        view.__name__ for route, view in ROUTES if route.startswith(("v1/", "api/")) and not issubclass(view, ApiView)
    }
    assert rest == set()


@pytest.mark.parametrize(
    "path",
    ["/v1/packs?pack=url", "/v1/whoami?x", "/v1/budget?currency=EUR", "/v1/webhooks?limit=1", f"{RUNS}?state=QUEUED"],
)
def test_dpp_02_an_unknown_parameter_is_422_by_name(shop: Shop, path: str) -> None:
    answer = shop.get(path)
    assert (answer.status_code, answer.json()["reason_code"]) == (422, "VALIDATION_FAILED")
    name = path.partition("?")[2].partition("=")[0]
    assert [error["field"] for error in answer.json()["errors"]] == [f"query.{name}"]


def test_dpp_02_of_a_run_and_its_acts_too_and_nothing_changes(shop: Shop) -> None:
    run_id = shop.submit().json()["run_id"]
    headers = bearer(shop.issued)
    before = list(Run.objects.values())
    answers: list[Any] = [
        shop.get(f"{RUNS}/{run_id}?expand=result"),
        shop.client.post(f"{RUNS}/{run_id}/cancel?force=1", headers=headers),
        shop.client.delete(f"{RUNS}/{run_id}/data?force=1", headers=headers),
        shop.client.post(
            f"{RUNS}?dry_run=1",
            a_body(),
            content_type="application/json",
            headers=headers | {"Idempotency-Key": "a-key-of-this-test"},
        ),
    ]
    assert [answer.status_code for answer in answers] == [422] * 4
    assert [answer.json()["errors"][0]["field"] for answer in answers] == [
        *("query.expand", "query.force", "query.force", "query.dry_run")
    ]
    assert list(Run.objects.values()) == before


def test_dpp_02_a_stranger_learns_nothing_of_parameters(shop: Shop) -> None:
    assert shop.client.get("/v1/packs?pack=url").status_code == 401
