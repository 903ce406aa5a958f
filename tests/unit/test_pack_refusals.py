"""Inputs that are wrong in every way: each is answered by a field and a cure, in words of JSON, or it is taken."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dpp_project.http.parsers import parse_json
from dpp_project.http.problems import Problem
from runs.packs import registry
from runs.submit import request_body

pytestmark = pytest.mark.contract("DPP-02")

KEY = "uploads/t_one/2026/03/01/6f1c1a52/a.png"
RULE = {"id": "a", "type": "pii"}
ITEM = {"id": "1", "output": "a", "expected": "a"}


def answered(pack: str, inputs: Any) -> list[tuple[str, str]]:
    """What a submit of these inputs is told of its fields; nothing where it is taken."""
    body = {"pack_type": pack, "inputs": inputs, "reservation": {"max_cost_usd": "1.0000"}}
    try:
        request_body.read_run_request(parse_json(json.dumps(body).encode()))
    except Problem as problem:
        return [(error.field, error.detail) for error in problem.errors]
    return []


@pytest.mark.parametrize(
    ("pack", "inputs", "field", "said"),
    [
        ("decision", [], "inputs", "input should be an object"),
        ("decision", None, "inputs", "input should be an object"),
        ("decision", {}, "inputs.question", "field required"),
        ("decision", {"question": "?!"}, "inputs.question", "ask something: there is no word in it"),
        ("decision", {"question": "\u200b"}, "inputs.question", "ask something: there is no word in it"),
        ("decision", {"question": "가" * 2_001}, "inputs.question", "string should have at most 2000 characters"),
        ("decision", {"question": "a\0"}, "inputs.question", "remove U+0000 and lone surrogates"),
        ("decision", {"question": "\ud800"}, "inputs.question", "remove U+0000 and lone surrogates"),
        ("decision", {"question": "a", "mode": "FULL"}, "inputs.mode", "input should be 'brief' or 'full'"),
        ("url", {"urls": "https://a.example"}, "inputs.urls", "input should be a valid list"),
        ("url", {"urls": []}, "inputs.urls", "list should have at least 1 item, not 0"),
        ("url", {"urls": ["https://a.example"] * 31}, "inputs.urls", "list should have at most 30 items, not 31"),
        ("url", {"urls": [None]}, "inputs.urls[0]", "input should be a valid string"),
        ("url", {"urls": ["https://a.example"], "max_urls": True},
         "inputs.max_urls", "input should be a valid integer"),
        ("url", {"urls": ["https://a.example"], "private_hosts": "a=127.0.0.1:443"},
         "inputs.private_hosts", "unknown field; remove it"),
        ("url", {"urls": ["https://a.example"], "DPP_URL_PRIVATE_HOSTS": "a=127.0.0.1:443"},
         "inputs.DPP_URL_PRIVATE_HOSTS", "unknown field; remove it"),
        ("decision", {"question": "a", "contxt": "b"}, "inputs.contxt", "unknown field; did you mean `context`?"),
        ("ocr", {"images": [{"keys": KEY, "key": KEY}]},
         "inputs.images[0].keys", "unknown field; did you mean `key`?"),
        ("compliance", {"text": "x", "rules": [{"id": "a", "type": "regex", "patern": "x", "pattern": "x"}]},
         "inputs.rules[0].patern", "unknown field; did you mean `pattern`?"),
        ("ocr", {"images": ["x"]}, "inputs.images[0]", "input should be an object"),
        ("ocr", {"images": [{"key": ""}]}, "inputs.images[0].key", "string should have at least 1 character"),
        ("ocr", {"images": [{"key": KEY}, {"key": KEY}]},
         "inputs.images[1].key", "names a file a second time; name it once"),
        ("ocr", {"images": [{"key": KEY}], "language": None},
         "inputs.language", "is always kor+eng: both are read, word by word"),
        ("compliance", {"rules": [RULE]}, "inputs", "send either text or document, and not both; null is neither"),
        ("compliance", {"text": "x", "rules": ["pii"]}, "inputs.rules[0]", "input should be an object"),
        ("compliance", {"text": "x", "rules": [{"id": "a"}]},
         "inputs.rules[0].type", "send one of pii, secret, regex, schema, expression"),
        ("compliance", {"text": "x", "rules": [RULE, RULE]}, "inputs.rules[1].id", "another rule has this id"),
        ("eval", {"items": [ITEM], "metrics": [{"type": "f1"}]}, "inputs.metrics[0].type",
         "send one of exact_match, token_f1, rouge_l, chrf, bleu, wer, cer, json_equal, regex, numeric"),
        ("eval", {"items": [ITEM], "metrics": [{"type": "regex", "pattern": "("}]}, "inputs.metrics[0].pattern",
         "not a pattern of RE2 (missing )); lookaround and backreferences do not exist there"),
        ("eval", {"items": [ITEM], "metrics": [{"type": "numeric"}]},
         "inputs.items[0].expected", "numeric compares with a number, and this is none"),
        ("eval", {"items": [ITEM], "metrics": [{"type": "cer"}], "thresholds": {"wer": 1}},
         "inputs.thresholds.wer", "no metric is called so; there are cer"),
    ],
)  # fmt: skip
def test_dpp_02_what_is_wrong_is_told_by_its_field_and_its_cure(pack: str, inputs: Any, field: str, said: str) -> None:
    assert answered(pack, inputs) == [(field, said)]


NASTY: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        1e300,
        2**53,
        10**30,
        "",
        " ",
        "\u202e\u200b",
        "😀",
        "e\u0301" * 400,
        "x" * 300_000,
    ),
    *([], {}, [[]], [None], [{}], {"": {}}, {"type": []}, {"$ref": "#"}, {"a": {"b": [1, {"c": None}]}}),
    *("../../etc/passwd", "{{7*7}}", "'; DROP TABLE runs; --", "\r\nX: y", "1e99999", "(((((", "NaN"),
]
PYTHONS_WORDS = re.compile(r"dictionary|instance of|discriminator|\btag\b|after validation|pydantic|NoneType|Traceback")


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, value in inside:
        yield from places(value, (*path, name))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    made = copy.deepcopy(document)
    node = made
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    return made


@pytest.mark.parametrize("pack", ["decision", "url", "ocr", "compliance", "eval"])
def test_dpp_02_nothing_wrong_anywhere_is_a_fault_of_ours_or_told_in_words_of_python(pack: str) -> None:
    example = dict(registry.pack_named(pack).example)
    refused = 0
    for path in places(example):
        for value in NASTY:
            said = answered(pack, replaced(example, path, value))
            refused += bool(said)
            for field, message in said:
                assert field.startswith("inputs"), (path, value)
                assert 5 < len(message) < 600, (path, value)
                assert not PYTHONS_WORDS.search(message), message
    assert refused > 5 * len(NASTY) // 4
