"""What a submit may say, and how a refusal names what is wrong (DPP-02)."""

from typing import Any

import pytest

from dpp_project.http import idempotency_keys
from dpp_project.http.problems import Problem
from runs.packs import registry
from runs.packs.probe import ProbeInputs
from runs.submit import request_body
from runs.submit.request_hash import payload_of

pytestmark = pytest.mark.contract("DPP-02")


def a_body(**changes: Any) -> dict[str, Any]:
    return {"pack_type": "probe", "inputs": {}, "reservation": {"max_cost_usd": "0.2500"}} | changes


def reserving(**more: object) -> dict[str, Any]:
    return {"reservation": {"max_cost_usd": "0.2500"} | more}


def refused(body: Any) -> dict[str, str]:
    with pytest.raises(Problem) as caught:
        payload_of(request_body.read_run_request(body))
    assert caught.value.status == 422
    return {error.field: error.detail for error in caught.value.errors}


def test_submit_request_defaults_are_the_documented_ones() -> None:
    request = request_body.read_run_request(a_body())
    assert request.reservation.model_dump() == {
        "max_cost_usd": "0.2500",
        "timebox_sec": 90,
        "min_reliability_score": 0.8,
    }
    assert request.reservation.max_cost_micros == 250_000
    assert request.options.inline == 0
    assert request.meta.profile_version == "PROFILE_DPP_0_4_2_2"
    assert request.normalised_artifacts() is None


ARABIC_DIGITS = "\u0660.\u0662\u0665\u0660\u0660"
FULL_WIDTH_DIGITS = "\uff10.\uff12\uff15\uff10\uff10"


@pytest.mark.parametrize(
    "amount",
    [
        *("0.25", "0.25000", "NaN", "Infinity", "1e-4", "-0.2500", "+0.2500", "0.0000", " 0.2500", "0.2500\n"),
        *(ARABIC_DIGITS, FULL_WIDTH_DIGITS, "00.2500", ".2500", "1,000.0000", "9007199254.7410", ""),
        *(0.25, 25, None, True, ["0.2500"]),
    ],
)
def test_submit_request_amount_is_a_string_of_four_decimals(amount: object) -> None:
    assert list(refused(a_body(reservation={"max_cost_usd": amount}))) == ["reservation.max_cost_usd"]


@pytest.mark.parametrize(("amount", "micros"), [("0.0001", 100), ("9007199254.7409", 9_007_199_254_740_900)])
def test_submit_request_amount_reaches_to_its_limits(amount: str, micros: int) -> None:
    assert (
        request_body.read_run_request(a_body(reservation={"max_cost_usd": amount})).reservation.max_cost_micros
        == micros
    )


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (reserving(timebox_sec=0), "reservation.timebox_sec"),
        (reserving(timebox_sec=91), "reservation.timebox_sec"),
        (reserving(timebox_sec="90"), "reservation.timebox_sec"),
        (reserving(timebox_sec=True), "reservation.timebox_sec"),
        (reserving(timebox_sec=1.5), "reservation.timebox_sec"),
        (reserving(min_reliability_score=1.01), "reservation.min_reliability_score"),
        (reserving(min_reliability_score=-0.1), "reservation.min_reliability_score"),
        (reserving(min_reliability_score="1"), "reservation.min_reliability_score"),
        (reserving(min_reliability_score=False), "reservation.min_reliability_score"),
        (reserving(colour=1), "reservation.colour"),
        ({"reservation": {}}, "reservation.max_cost_usd"),
        ({"reservation": "0.2500"}, "reservation"),
        ({"options": {"inline": 2}}, "options.inline"),
        ({"options": {"inline": True}}, "options.inline"),
        ({"options": {"outline": 1}}, "options.outline"),
        ({"meta": {"profile_version": "a b"}}, "meta.profile_version"),
        ({"meta": {"trace_id": 7}}, "meta.trace_id"),
        ({"meta": {"trace_id": "x" * 257}}, "meta.trace_id"),
        ({"client": "curl"}, "client"),
        ({"colour": "blue"}, "colour"),
        ({"artifacts": {}}, "artifacts"),
        ({"pack_type": "astrology"}, "pack_type"),
        ({"pack_type": 5}, "pack_type"),
        ({"pack_type": None}, "pack_type"),
        ({"inputs": []}, "inputs"),
        ({"inputs": None}, "inputs"),
        ({"inputs": {"sleep_ms": -1}}, "inputs.sleep_ms"),
        ({"inputs": {"sleep": 1}}, "inputs.sleep"),
    ],
)  # fmt: skip
def test_submit_request_refusal_names_the_field(changes: dict[str, Any], field: str) -> None:
    assert list(refused(a_body(**changes))) == [field]


def test_submit_request_names_all_wrong_fields_at_once() -> None:
    assert set(refused({"inputs": {}, "reservation": {"timebox_sec": 0}, "x": 1})) == {
        *("pack_type", "reservation.max_cost_usd", "reservation.timebox_sec", "x"),
    }
    assert set(refused([])) == {"body"}


def test_submit_request_unknown_pack_is_told_the_known_ones() -> None:
    assert refused(a_body(pack_type="astrology"))["pack_type"] == (
        f"unknown pack; choose of: {', '.join(registry.packs_for_sale())}"
    )


def test_submit_request_client_is_taken_and_left_out_of_the_hash() -> None:
    plain = payload_of(request_body.read_run_request(a_body()))
    assert payload_of(request_body.read_run_request(a_body(client={"client_version": "1.0", "trace_id": "t"}))) == plain


@pytest.mark.parametrize("key", ["12345678", "a" * 64, "!~:{}[]\"'\\/"])
def test_submit_request_key_of_visible_ascii(key: str) -> None:
    assert idempotency_keys.read_idempotency_key(key) == key


@pytest.mark.parametrize(
    "key", [None, "", "1234567", "a" * 65, "with space", "tab\tstop", "가나다라마바사아", "newline\n1"]
)
def test_submit_request_key_of_another_form_is_refused(key: str | None) -> None:
    with pytest.raises(Problem) as caught:
        idempotency_keys.read_idempotency_key(key)
    assert caught.value.status == 422
    assert [error.field for error in caught.value.errors] == ["header.Idempotency-Key"]


@pytest.mark.contract("HRD-27")
def test_hrd_27_a_new_input_that_says_nothing_is_not_stored() -> None:
    """The release before knows no `tell`; its worker would refuse the run (tests/acceptance/test_upgrade.py)."""
    assert "tell" not in ProbeInputs(sleep_ms=1).model_dump(mode="json")
    assert ProbeInputs(sleep_ms=1, tell=2).model_dump(mode="json")["tell"] == 2
