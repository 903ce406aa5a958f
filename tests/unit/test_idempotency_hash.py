"""What makes two requests the same (DPP-07)."""

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, JsonValue

from dpp_project.http.problems import Problem
from runs.packs import registry
from runs.packs.pack import Estimate, Pack, Price
from runs.submit import request_body
from runs.submit.request_hash import MAX_INPUTS_BYTES, payload_of

pytestmark = pytest.mark.contract("DPP-07")


class Anything(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = "hello"
    number: float = 1.0
    more: dict[str, JsonValue] = {}


SAMPLER: Pack[Anything] = Pack(
    name="sampler",
    summary="Takes anything.",
    inputs=Anything,
    prices=[Price(unit="run", micros=0)],
    estimate=lambda _inputs: Estimate(least_micros=0, most_micros=0),
    execute=lambda _work: {},
    example={},
    artifacts=("include_docx", "include_markdown"),
)


@pytest.fixture(autouse=True)
def _sampler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    sold = {**registry.packs_for_sale(), "sampler": SAMPLER}
    monkeypatch.setattr(registry, "packs_for_sale", lambda: sold)
    request_body.model_for.cache_clear()
    yield
    request_body.model_for.cache_clear()


def hashed(**changes: Any) -> str:
    body = {"pack_type": "sampler", "inputs": {}, "reservation": {"max_cost_usd": "0.2500"}} | changes
    return payload_of(request_body.read_run_request(body)).sha256


def test_dpp_07_hash_is_sha256_of_the_canonical_normalised_request() -> None:
    canonical = (
        '{"artifacts":{"include_docx":false,"include_markdown":false},"inputs":{"more":{},"number":1,"text":"hello"},'
        '"max_cost_usd":"0.2500","pack_type":"sampler","timebox_sec":90}'
    )
    assert hashed() == hashlib.sha256(canonical.encode()).hexdigest()


def test_dpp_07_an_omitted_default_hashes_as_the_default() -> None:
    assert hashed() == hashed(
        inputs={"text": "hello", "number": 1, "more": {}},
        reservation={"max_cost_usd": "0.2500", "timebox_sec": 90, "min_reliability_score": 0.8},
        options={"inline": 0},
        artifacts={"include_docx": False},
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"client": {"client_version": "9"}},
        {"meta": {"trace_id": "other"}},
        {"meta": {"profile_version": "other"}},
        {"options": {"inline": 1}},
        {"reservation": {"max_cost_usd": "0.2500", "min_reliability_score": 0.1}},
    ],
)
def test_dpp_07_what_only_says_who_asks_is_left_out(changes: dict[str, Any]) -> None:
    assert hashed(**changes) == hashed()


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": {"text": "hello "}},
        {"inputs": {"more": {"a": None}}},
        {"reservation": {"max_cost_usd": "0.2501"}},
        {"reservation": {"max_cost_usd": "0.2500", "timebox_sec": 89}},
        {"artifacts": {"include_docx": True}},
        {"pack_type": "probe"},
    ],
)
def test_dpp_07_what_says_what_to_do_is_in(changes: dict[str, Any]) -> None:
    assert hashed(**changes) != hashed()


def test_dpp_07_the_order_of_names_and_the_way_a_number_is_written_do_not_matter() -> None:
    one = hashed(inputs={"more": {"a": 1, "b": [1.0, 1e2]}, "text": "x"})
    other = hashed(inputs={"text": "x", "more": {"b": [1, 100], "a": 1}})
    assert one == other


def test_dpp_07_names_sort_by_utf_16_as_the_rfc_wants() -> None:
    """U+10000 sorts before U+E000 in UTF-16, after it by code point."""
    assert rfc8785.dumps({"\ue000": 1, "\U00010000": 2}) == '{"\U00010000":2,"\ue000":1}'.encode()


def test_dpp_02_inputs_over_256_kb_are_refused_and_just_under_are_not() -> None:
    room = MAX_INPUTS_BYTES - len(rfc8785.dumps({"text": "", "number": 1.0, "more": {}}))
    assert hashed(inputs={"text": "x" * room})
    with pytest.raises(Problem) as caught:
        hashed(inputs={"text": "x" * (room + 1)})
    assert [error.field for error in caught.value.errors] == ["inputs"]


def test_dpp_02_a_number_beyond_what_json_carries_is_refused() -> None:
    with pytest.raises(Problem) as caught:
        hashed(inputs={"more": {"n": 2**53}})
    assert [error.field for error in caught.value.errors] == ["inputs"]


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_dpp_07_canonical_numbers_read_back_as_themselves(number: float) -> None:
    assert math.isclose(float(rfc8785.dumps(number)), number, rel_tol=0, abs_tol=0)
