"""The OpenAPI document shows each operation by an example, and the examples are what it says (DPP-71)."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from dpp_project import pages
from dpp_project.http import answers

pytestmark = pytest.mark.contract("DPP-71")
DOCUMENT: Any = json.loads(pages.openapi_document())


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


OPERATIONS = dict(operations())
every_operation = pytest.mark.parametrize("name", OPERATIONS)


def contents(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What goes in and what comes out on success, as JSON."""
    parts = {"request": operation.get("requestBody", {})} | {
        status: answer for status, answer in operation["responses"].items() if status.startswith("2")
    }
    for name, part in parts.items():
        if "application/json" in part.get("content", {}):
            yield name, part["content"]["application/json"]


@every_operation
def test_openapi_examples_every_body_has_one_that_fits_its_schema(name: str) -> None:
    seen = 0
    for part, content in contents(OPERATIONS[name]):
        schema = {"components": DOCUMENT["components"]} | content["schema"]
        examples = [one["value"] for one in content.get("examples", {}).values()]
        assert examples, f"{part} of {name} has no example"
        for example in examples:
            jsonschema_rs.validate(schema, example)
            seen += 1
    assert seen or "204" in OPERATIONS[name]["responses"]  # which has no body


@every_operation
def test_openapi_examples_the_cost_headers_are_told_where_they_are_sent(name: str) -> None:
    if name.partition(" ")[2].startswith("/v1/"):
        for status, answer in OPERATIONS[name]["responses"].items():
            assert not status.startswith("2") or set(answers.COSTS_UNKNOWN) <= set(answer["headers"])


def test_openapi_examples_one_that_does_not_fit_is_found() -> None:
    schema = {"components": DOCUMENT["components"], "$ref": "#/components/schemas/Problem"}
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, {"title": 1})
