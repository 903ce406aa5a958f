"""`GET /v1/packs` and the OpenAPI document: what is for sale, made from the models that validate."""

import json
from typing import Any

import pytest

from dpp_project.pages import openapi
from runs.packs import registry
from runs.submit import request_body
from tests.gear.builders.shop import Shop

pytestmark = pytest.mark.contract("DPP-60")


def test_dpp_60_every_pack_is_listed_with_schema_prices_and_an_example_that_works(shop: Shop) -> None:
    response = shop.get("/v1/packs")
    assert response.status_code == 200
    listed = {pack["pack_type"]: pack for pack in response.json()["packs"]}
    assert list(listed) == list(registry.packs_for_sale())
    for name, pack in registry.packs_for_sale().items():
        assert listed[name]["inputs_schema"] == pack.inputs.model_json_schema()
        assert pack.result is not None, name
        assert listed[name]["result_schema"] == pack.result.model_json_schema(mode="serialization")
        assert [line["usd_micros"] for line in listed[name]["prices"]] == [price.micros for price in pack.prices]
        body = {"pack_type": name, "inputs": listed[name]["example"], "reservation": {"max_cost_usd": "1.0000"}}
        assert request_body.read_run_request(body).pack_type == name


@pytest.mark.contract("DPP-71")
def test_dpp_60_the_document_holds_each_packs_inputs_and_result() -> None:
    document: dict[str, Any] = json.loads(openapi.openapi_document())
    schemas = document["components"]["schemas"]
    submit = document["paths"]["/v1/runs"]["post"]["requestBody"]["content"]["application/json"]
    written = json.dumps(submit) + json.dumps(schemas)
    results = {one.get("$ref") for one in schemas["CompletedResult"]["properties"]["data"]["anyOf"]}
    for name, pack in registry.packs_for_sale().items():
        assert pack.inputs.__name__ in schemas, name
        assert pack.result is not None
        assert f"#/components/schemas/{pack.result.__name__}" in results
        assert name in submit["examples"] or name.capitalize() in submit["examples"]
        assert f'"{name}"' in written


@pytest.mark.contract("DPP-71")
def test_dpp_71_every_operation_of_ours_has_an_example_of_each_body() -> None:
    document: dict[str, Any] = json.loads(openapi.openapi_document())
    for path, operations in document["paths"].items():
        if not path.startswith(("/v1/runs", "/v1/uploads", "/v1/packs")):
            continue
        for method, operation in operations.items():
            bodies = [operation["requestBody"]] if "requestBody" in operation else []
            bodies += [answer for status, answer in operation["responses"].items() if status in {"200", "201"}]
            for body in bodies:
                assert all(content.get("examples") for content in body["content"].values()), f"{method} {path}"
