"""Bodies are read strictly, and refused in words that name the place and never repeat the content."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp_project.http.parsers import MAX_DEPTH, parse_json
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode

SECRET = "hunter2-canary"


def refusal(body: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        parse_json(body)
    return caught.value


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "line 1, column 1"),
        (b"{", "line 1, column 2"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": {"b": 1, "b": 1}}', "twice"),
        (b"[NaN]", "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"[-Infinity]", "-Infinity"),
        (b"[1e999]", "too large"),
        (b"[" + b"9" * 5_000 + b"]", "digits"),
        (b'"\xff"', "byte 1 is not UTF-8"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b"[" * 100_000, "too many arrays"),
        (b"[" * 400 + b"]" * 400, "deeper"),
        (b'["' + b"a" * 100_000 + b'",' + b"[" * 20_000, "deeper"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "deeper"),
        (b'{"a": 1} {"b": 2}', "Extra data"),
        (b"{'a': 1}", "column 2"),
    ],
)
def test_what_is_not_strict_json_is_malformed(body: bytes, says: str) -> None:
    problem = refusal(body)
    assert problem.reason is ReasonCode.MALFORMED_REQUEST
    assert problem.status == 400
    assert says in problem.detail


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"inputs": {"question": "a\\u0000b"}}', "inputs.question"),
        (b'{"inputs": [1, "\\ud800"]}', "inputs[1]"),
        (b'{"a\\u0000": 1}', "body"),
    ],
)
def test_text_that_cannot_be_stored_is_refused_by_field(body: bytes, field: str) -> None:
    problem = refusal(body)
    assert problem.reason is ReasonCode.VALIDATION_FAILED
    assert [error.field for error in problem.errors] == [field]


def test_a_refusal_never_repeats_the_body() -> None:
    for body in (f'{{"{SECRET}": 1, "{SECRET}": 2}}', f'["{SECRET}', f"[{SECRET}]", f'["{SECRET}\\u0000"]'):
        problem = refusal(body.encode())
        assert SECRET not in problem.detail
        assert all(SECRET not in error.field + error.detail for error in problem.errors)


storable = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | storable,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(storable, inner, max_size=4),
    max_leaves=20,
)


@given(documents)
def test_every_document_that_can_be_stored_is_read_as_it_was_written(document: Any) -> None:
    for ensure_ascii in (True, False):
        assert parse_json(json.dumps(document, ensure_ascii=ensure_ascii).encode()) == document


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_problem(body: bytes) -> None:
    try:
        parse_json(body)
    except Problem as problem:
        assert problem.status in {400, 422}
