"""The OpenAPI document shows each operation by an example, and the examples are what it says (DPP-71)."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema_rs
import pytest

from dpp_project.http import answers
from dpp_project.pages import openapi

pytestmark = pytest.mark.contract("DPP-71")


@cache
def document() -> Any:
    return json.loads(openapi.openapi_document())


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def contents(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What goes in and what comes out on success, as JSON."""
    parts = {"request": operation.get("requestBody", {})} | {
        status: answer for status, answer in operation["responses"].items() if status.startswith("2")
    }
    for name, part in parts.items():
        if "application/json" in part.get("content", {}):
            yield name, part["content"]["application/json"]


def test_openapi_examples_every_body_has_one_that_fits_its_schema() -> None:
    for name, operation in operations():
        seen = 0
        for part, content in contents(operation):
            schema = {"components": document()["components"]} | content["schema"]
            examples = [one["value"] for one in content.get("examples", {}).values()]
            assert examples, f"{part} of {name} has no example"
            for example in examples:
                assert jsonschema_rs.is_valid(schema, example), f"{part} of {name}: {first_fault(schema, example)}"
                seen += 1
        assert seen or "204" in operation["responses"], name  # which has no body


def first_fault(schema: dict[str, Any], example: Any) -> str:
    return str(next(iter(jsonschema_rs.iter_errors(schema, example)), ""))


def test_openapi_examples_the_cost_headers_are_told_where_they_are_sent() -> None:
    for name, operation in operations():
        if name.partition(" ")[2].startswith("/v1/"):
            for status, answer in operation["responses"].items():
                assert not status.startswith("2") or set(answers.COSTS_UNKNOWN) <= set(answer["headers"]), name


def test_openapi_examples_one_that_does_not_fit_is_found() -> None:
    schema = {"components": document()["components"], "$ref": "#/components/schemas/Problem"}
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, {"title": 1})
