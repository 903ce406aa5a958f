"""`POST /v1/runs/estimate`: a price before anything is held, and the same refusals as a submit."""

import json
from typing import Any

import pytest

from dpp_project.pages import openapi
from runs.packs import registry
from tenants.scopes import Scope
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import a_key, bearer

pytestmark = pytest.mark.contract("DPP-60")
ESTIMATE = "/v1/runs/estimate"


def asked(shop: Shop, body: Any, **headers: str) -> Any:
    return shop.client.post(
        ESTIMATE, data=json.dumps(body), content_type="application/json", headers=bearer(shop.issued) | headers
    )


def told(response: Any) -> list[tuple[str, str]]:
    assert response.status_code == 422, response.content
    return [(error["field"], error["detail"]) for error in response.json()["errors"]]


@pytest.mark.contract("DPP-66")
@pytest.mark.parametrize(
    ("cost", "hold", "fee"),
    [("0.0100", "0.0100", "0.0050"), ("1.0000", "1.0000", "0.0200"), ("0.0000", "0.0001", "0.0001")],
)
def test_dpp_60_an_estimate_names_the_price_and_the_smallest_hold(shop: Shop, cost: str, hold: str, fee: str) -> None:
    response = asked(shop, {"pack_type": "probe", "inputs": {"cost_usd": cost}})
    assert response.status_code == 200
    assert response.json() == {
        "pack_type": "probe",
        "least_usd": cost,
        "most_usd": cost,
        "smallest_hold_usd": hold,
        "minimum_fee_usd": fee,
        "least_usd_micros": parse_shown(cost),
        "most_usd_micros": parse_shown(cost),
        "smallest_hold_usd_micros": parse_shown(hold),
        "minimum_fee_usd_micros": parse_shown(fee),
    }
    assert response.headers["X-DPP-Budget-Remaining"] == "10.0000"
    shop.nothing_happened()


def parse_shown(usd: str) -> int:
    return int(usd.replace(".", "")) * 100


def test_dpp_60_the_smallest_hold_is_one_that_a_submit_takes(shop: Shop) -> None:
    estimate = asked(shop, {"pack_type": "probe", "inputs": {"cost_usd": "0.0000"}}).json()
    body = {
        "pack_type": "probe",
        "inputs": {"cost_usd": "0.0000"},
        "reservation": {"max_cost_usd": estimate["smallest_hold_usd"]},
    }
    assert shop.submit(body).status_code == 202


def test_dpp_60_every_pack_estimates_its_example(shop: Shop) -> None:
    for name, pack in registry.packs_for_sale().items():
        response = asked(shop, {"pack_type": name, "inputs": dict(pack.example)})
        assert response.status_code == 200, response.content
        answer = response.json()
        assert float(answer["least_usd"]) <= float(answer["most_usd"]) <= float(answer["smallest_hold_usd"]), name


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"inputs": {}}, "pack_type", "field required"),
        ({"pack_type": "nope", "inputs": {}}, "pack_type", "unknown pack"),
        ({"pack_type": "probe"}, "inputs", "field required"),
        ({"pack_type": "probe", "inputs": {"sleep_ms": -1}}, "inputs.sleep_ms", "greater than or equal to 0"),
        ({"pack_type": "probe", "inputs": {}, "options": {}}, "options", "unknown field"),
        ({"pack_type": "eval", "inputs": {"items": [{"id": "a", "output": "x" * 262_144}],
          "metrics": [{"type": "regex", "pattern": "x"}]}}, "inputs", "larger than 262144 bytes"),
    ],
)  # fmt: skip
def test_dpp_60_what_a_submit_refuses_an_estimate_refuses(shop: Shop, body: Any, field: str, said: str) -> None:
    ((found, detail),) = told(asked(shop, body))
    assert found == field
    assert said in detail.lower()


def test_dpp_60_either_scope_of_runs_will_do(shop: Shop) -> None:
    body = {"pack_type": "probe", "inputs": {}}
    for scope, status in ((Scope.RUNS_READ, 200), (Scope.RUNS_WRITE, 200), (Scope.BUDGET_READ, 403)):
        key = bearer(a_key(shop.tenant, scopes=frozenset({scope})))
        assert asked(shop, body, **key).status_code == status, scope


@pytest.mark.contract("DPP-71")
def test_dpp_71_the_estimate_stands_in_the_document_with_every_packs_inputs() -> None:
    document: dict[str, Any] = json.loads(openapi.openapi_document())
    operation = document["paths"][ESTIMATE]["post"]
    written = json.dumps(operation) + json.dumps(document["components"]["schemas"])
    for name in registry.packs_for_sale():
        assert f"{name.capitalize()}Estimate" in written
    assert operation["responses"]["200"]["content"]["application/json"]["examples"]
