"""The OpenAPI document by the rules of its own standard, read by one who did not write it (DPP-71)."""

import json
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing.exceptions import Unresolvable

from dpp_project.pages import openapi

pytestmark = pytest.mark.contract("DPP-71")


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(openapi.openapi_document())
    return found


def faults(written: dict[str, Any]) -> list[str]:
    validator = OpenAPIV31SpecValidator(written)
    try:
        return [f"{'/'.join(map(str, error.path))}: {error.message[:200]}" for error in validator.iter_errors()]
    except Unresolvable as error:  # raised, not listed; its own words quote the whole document
        return [f"a pointer to nothing: {error.ref}"]


def test_dpp_71_the_document_is_openapi_3_1_without_a_fault() -> None:
    written = document()
    assert written["openapi"].startswith("3.1.")
    assert faults(written) == []


def test_dpp_71_each_operation_has_a_name_of_its_own_and_a_tag() -> None:
    operations = [
        operation
        for path in document()["paths"].values()
        for method, operation in path.items()
        if method in {"get", "put", "post", "delete", "patch"}
    ]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names)) > 50
    assert [operation["operationId"] for operation in operations if not operation.get("tags")] == []


def test_dpp_71_each_schema_has_a_title_of_its_own() -> None:
    """Client generators name their types by it, and leave out what is named twice."""
    schemas = document()["components"]["schemas"]
    assert {"CapsChange", "CapsChangeRequest"} <= set(schemas)
    assert {name: schema["title"] for name, schema in schemas.items() if schema.get("title", name) != name} == {}


def test_dpp_71_a_body_that_is_one_of_several_models_is_required() -> None:
    """A client generated from it would let its caller leave the run out of a submit."""
    paths = document()["paths"]
    bodies = [paths[path]["post"]["requestBody"] for path in ("/v1/runs", "/v1/runs/estimate", "/api/tickets")]
    assert [body.get("required") for body in bodies] == [True, True, True]
    assert "required" not in paths["/api/tickets/reaper/run"]["post"]["requestBody"]


def test_dpp_71_a_fault_in_the_document_is_found() -> None:
    for breaks in (_without_a_path_parameter, _with_a_type_of_its_own, _with_a_pointer_to_nothing, _named_twice):
        written = document()
        breaks(written)
        assert faults(written), breaks.__name__


def _without_a_path_parameter(written: dict[str, Any]) -> None:
    written["paths"]["/v1/runs/{run_id}"]["get"]["parameters"] = []


def _with_a_type_of_its_own(written: dict[str, Any]) -> None:
    written["components"]["schemas"]["PackList"]["type"] = "list"


def _with_a_pointer_to_nothing(written: dict[str, Any]) -> None:
    packs = written["paths"]["/v1/packs"]["get"]["responses"]["200"]["content"]["application/json"]
    packs["schema"] = {"$ref": "#/components/schemas/NoSuch"}


def _named_twice(written: dict[str, Any]) -> None:
    written["paths"]["/v1/packs"]["get"]["operationId"] = written["paths"]["/v1/runs"]["get"]["operationId"]
