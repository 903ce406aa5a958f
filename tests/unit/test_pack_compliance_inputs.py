"""A rule that could never work is refused at submit, and the error names its field."""

import socket
from types import ModuleType
from typing import Any

import pytest
import re2

from runs.packs.compliance import expressions, schemas
from runs.packs.compliance.inputs import ComplianceInputs
from runs.packs.shared import regexes
from tests.gear.builders.packs import refusals

pytestmark = pytest.mark.contract("DPP-64")


def one(rule: dict[str, Any], **subject: Any) -> dict[str, Any]:
    return {"rules": [{"id": "a"} | rule]} | (subject or {"text": "x"})


@pytest.mark.parametrize(
    ("inputs", "place", "said"),
    [
        (one({"type": "regex", "pattern": "("}), ("rules", 0, "pattern"), "missing )"),
        (one({"type": "regex", "pattern": "(?=a)"}), ("rules", 0, "pattern"), "lookaround"),
        (one({"type": "regex", "pattern": r"(a)\1"}), ("rules", 0, "pattern"), "not a pattern of RE2"),
        (one({"type": "regex", "pattern": r"(\pL{1,20})"}), ("rules", 0, "pattern"), "too large"),
        (one({"type": "regex", "pattern": "a" * 1_001}), ("rules", 0, "pattern"), "at most 1000"),
        (one({"type": "regex"}), ("rules", 0, "pattern"), "Field required"),
        (one({"type": "schema", "json_schema": {"type": "nope"}}, document=1), ("rules", 0, "json_schema"), "/type"),
        (one({"type": "schema", "json_schema": {"pattern": "("}}, document=1), ("rules", 0, "json_schema"), "/pattern"),
        (one({"type": "schema", "json_schema": {"$ref": "http://127.0.0.1:9/x"}}, document=1),
         ("rules", 0, "json_schema"), "leads out"),
        (one({"type": "schema", "json_schema": {"$ref": "file:///etc/passwd"}}, document=1),
         ("rules", 0, "json_schema"), "leads out"),
        (one({"type": "schema", "json_schema": {"$schema": "http://x/y"}}, document=1),
         ("rules", 0, "json_schema"), "$schema"),
        (one({"type": "regex", "pattern": r"\pL?" * 21}), ("rules", 0, "pattern"), "more than 20 Unicode classes"),
        (one({"type": "regex", "pattern": "[a-z]{600}[a-z]{600}", "ignore_case": True}), ("rules", 0, "pattern"),
         "too large"),
        (one({"type": "schema", "json_schema": {"$ref": "#/nowhere"}}, document=1), ("rules", 0, "json_schema"),
         "leads nowhere: Pointer '/nowhere' does not exist"),
        (one({"type": "schema", "json_schema": {"properties": {"a": {"minimum": "3"}}}}, document=1),
         ("rules", 0, "json_schema"), 'at /properties/a/minimum: is not of type "number"'),
        (one({"type": "schema", "json_schema": {"pattern": "(?=a)"}}, document=1), ("rules", 0, "json_schema"),
         "lookaround"),
        (one({"type": "schema", "json_schema": {"patternProperties": {f"a{n}": {"pattern": "x"} for n in range(51)}}},
             document=1), ("rules", 0, "json_schema"), "at most 100 patterns in its schemas"),
        (one({"type": "expression", "expression": "+".join(["1"] * 999) + "==1"}),
         ("rules", 0, "expression"), "too deeply"),
        ({"document": 1, "rules": [{"id": f"s{n}", "type": "schema", "json_schema": {}} for n in range(11)]},
         ("rules", 10, "type"), "at most 10 schemas"),
        (one({"type": "schema", "json_schema": {}}), ("rules", 0, "type"), "only text"),
        (one({"type": "expression", "expression": "1 +"}), ("rules", 0, "expression"), "line 1, column 4"),
        (one({"type": "expression", "expression": "text.size()"}), ("rules", 0, "expression"), "true or false"),
        (one({"type": "expression", "expression": "nope > 1"}), ("rules", 0, "expression"), "undeclared"),
        (one({"type": "expression", "expression": "document.a"}), ("rules", 0, "expression"), "undeclared"),
        (one({"type": "expression", "expression": "text == 'a'"}, document=1),
         ("rules", 0, "expression"), "undeclared"),
        (one({"type": "expression", "expression": "(" * 40 + "true" + ")" * 40}),
         ("rules", 0, "expression"), "too deeply"),
        (one({"type": "pii", "kinds": ["dna"]}), ("rules", 0, "kinds", 0), "Input should be"),
        (one({"type": "pii", "severity": "bad"}), ("rules", 0, "severity"), "Input should be"),
        (one({"type": "magic"}), ("rules", 0, "type"), "send one of pii, secret, regex, schema, expression"),
        (one({"type": ["pii"]}), ("rules", 0, "type"), "send one of pii"),
        (one({}), ("rules", 0, "type"), "send one of pii"),
        (one({"type": "pii", "id": "with space"}), ("rules", 0, "id"), "pattern"),
        ({"text": "x", "rules": [{"id": "a", "type": "pii"}, {"id": "a", "type": "secret"}]},
         ("rules", 1, "id"), "another rule"),
        ({"text": "x", "rules": []}, ("rules",), "at least 1"),
        ({"rules": [{"id": "a", "type": "pii"}]}, (), "either text or document"),
        (one({"type": "pii"}, text="x", document={}), (), "either text or document"),
    ],
)  # fmt: skip
def test_dpp_64_a_wrong_rule_is_named(inputs: dict[str, Any], place: tuple[Any, ...], said: str) -> None:
    ((found, message),) = refusals(ComplianceInputs, inputs)
    assert found == place
    assert said in message


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the API compiles of a request."""
    made: list[str] = []

    def count(of: ModuleType, name: str) -> None:
        compiles = getattr(of, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            made.append(of.__name__.rpartition(".")[2])
            return compiles(*arguments, **options)

        monkeypatch.setattr(of, name, counting)

    count(regexes, "compiled_regex")
    count(schemas, "compiled_schema")
    count(expressions, "compiled_expression")
    return made


def rules(count: int, **rule: Any) -> list[dict[str, Any]]:
    return [{"id": f"{rule['type']}-{n}"} | rule for n in range(count)]


EXPRESSION = {"type": "expression", "expression": "document.a && " * 140 + "true"}
PATTERNS = {"type": "schema", "json_schema": {"allOf": [{"pattern": f"a{n}"} for n in range(60)]}}


@pytest.mark.parametrize(
    ("document", "wrong", "compiled"),
    [
        (rules(100, type="regex", pattern=r"(\pL?){500}"), 5, ["regexes"] * 5),
        (rules(100, type="expression", expression="document.("), 5, ["expressions"] * 5),
        (rules(10, type="schema", json_schema={"type": "nope"}), 5, ["schemas"] * 5),
        (rules(100, **EXPRESSION), 75, []),
        (rules(2, **PATTERNS), 1, []),
        (rules(11, type="schema", json_schema={}), 1, []),
        (rules(89, type="regex", pattern="a") + rules(10, type="schema", json_schema={}) + rules(1, **EXPRESSION),
         0, ["regexes"] * 89 + ["schemas"] * 10 + ["expressions"]),
    ],
)  # fmt: skip
def test_dpp_64_a_request_compiles_each_rule_once_and_stops_at_the_fifth_that_is_refused(
    document: list[dict[str, Any]], wrong: int, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = counted(monkeypatch)
    assert len(refusals(ComplianceInputs, {"document": {"a": True}, "rules": document})) == wrong
    assert made == compiled


def test_dpp_64_many_unicode_classes_are_refused_before_they_are_spelt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    compile_pattern = re2.compile

    def count(pattern: bytes, options: Any) -> Any:
        asked.append(pattern)
        return compile_pattern(pattern, options)

    monkeypatch.setattr(re2, "compile", count)
    with pytest.raises(regexes.PatternRefused, match="20 Unicode classes"):
        regexes.compiled_regex(r"\pL" * 300)
    regexes.compiled_regex(r"[\p{Hangul}\p{Latin}]+" * 10)
    assert asked == [rb"[\p{Hangul}\p{Latin}]+" * 10]


def test_dpp_64_what_passed_passes_again_as_it_is_stored() -> None:
    """The box reads the normalised inputs, every default in them."""
    inputs = one({"type": "schema", "json_schema": {"type": "object"}}, document={"a": [1, None, True]})
    inputs["rules"] += [{"id": "b", "type": "pii"}, {"id": "c", "type": "expression", "expression": "document.a != 1"}]
    stored = ComplianceInputs.model_validate(inputs).model_dump(mode="json")
    assert ComplianceInputs.model_validate(stored).model_dump(mode="json") == stored
    assert stored["document"] == {"a": [1, None, True]}


def test_dpp_64_no_reference_of_a_schema_is_ever_fetched() -> None:
    """A listener stands where the references point; what waits in its queue afterwards is this test's own call."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        address = server.getsockname()
        for name in ("$ref", "$dynamicRef", "$schema", "$recursiveRef"):
            schema = {name: f"http://127.0.0.1:{address[1]}/schema.json"}
            refusals(ComplianceInputs, one({"type": "schema", "json_schema": schema}, document={}))
        with socket.create_connection(address) as own:
            accepted, _ = server.accept()
            with accepted:
                assert accepted.getpeername() == own.getsockname()
