"""What a decision run may ask, and what it costs by the engine that is set."""

from typing import Any

import pytest

from dpp_project.http.problems import Problem
from runs.packs import decision
from runs.packs.decision import engine
from runs.packs.decision.inputs import DecisionInputs
from runs.packs.pack import WITHHELD, Estimate, Price
from runs.submit import request_body

pytestmark = pytest.mark.contract("DPP-61")
LLM = {
    "DPP_LLM_BASE_URL": "https://llm.example/v1/",
    "DPP_LLM_MODEL": "small",
    "DPP_LLM_INPUT_MICROS_PER_1K": "150",
    "DPP_LLM_OUTPUT_MICROS_PER_1K": "600",
}


def request(inputs: dict[str, Any]) -> request_body.RunCreateRequest:
    return request_body.read_run_request(
        {"pack_type": "decision", "inputs": inputs, "reservation": {"max_cost_usd": "0.0500"}}
    )


def test_pack_decision_defaults() -> None:
    assert request({"question": "Why?"}).normalised_inputs() == {"question": "Why?", "context": None, "mode": "brief"}


@pytest.mark.parametrize(
    ("inputs", "field"),
    [
        ({}, "inputs.question"),
        ({"question": ""}, "inputs.question"),
        ({"question": " ?! "}, "inputs.question"),
        ({"question": 7}, "inputs.question"),
        ({"question": "a" * 2_001}, "inputs.question"),
        ({"question": "Why?", "context": ["a"]}, "inputs.context"),
        ({"question": "Why?", "mode": "long"}, "inputs.mode"),
        ({"question": "Why?", "model": "larger"}, "inputs.model"),
        ({"question": "Why?", "max_tokens": 5}, "inputs.max_tokens"),
    ],
)
def test_pack_decision_a_wrong_input_is_named(inputs: dict[str, Any], field: str) -> None:
    with pytest.raises(Problem) as refused:
        request(inputs)
    assert [error.field for error in refused.value.errors] == [field]


def test_pack_decision_embedded_costs_what_the_document_says_and_reaches_nothing() -> None:
    pack = decision.decision_pack({})
    assert pack.prices == [Price(unit="run", micros=50_000, note="or the whole hold, where that is less")]
    assert pack.estimate(DecisionInputs(question="Why?")) == Estimate(least_micros=50_000, most_micros=50_000)
    assert pack.reach({}) is None
    assert pack.job_environment({}) == {}


def test_pack_decision_with_a_model_is_priced_by_tokens_and_asks_through_its_worker() -> None:
    pack = decision.decision_pack(LLM)
    assert [(price.unit, price.micros) for price in pack.prices] == [
        ("1,000 tokens read", 150),
        ("1,000 tokens written", 600),
    ]
    brief, full = (
        pack.estimate(DecisionInputs(question="Why?", context="x" * 10_000, mode=mode)) for mode in ("brief", "full")
    )
    assert 0 < brief.least_micros < brief.most_micros
    chosen = engine.read_answer_engine(LLM)
    assert chosen is not None
    assert brief.most_micros > chosen.cost_micros(tokens_in=10_000, tokens_out=500)
    assert full.most_micros > brief.most_micros
    secret = LLM | {"DPP_LLM_API_KEY": "a-secret"}
    reach = pack.reach(secret)
    assert reach is not None
    assert reach.rules is None, "a job of this pack connects nowhere"
    assert reach.asks is not None
    assert reach.asks.url == "https://llm.example/v1/chat/completions"
    assert ("authorization", "Bearer a-secret") in reach.asks.headers
    assert "a-secret" not in repr(reach)


@pytest.mark.contract("HRD-16")
def test_pack_decision_a_job_sees_neither_the_key_nor_the_address() -> None:
    secret = LLM | {"DPP_LLM_API_KEY": "a-secret"}
    seen = decision.decision_pack(secret).job_environment(secret)
    assert seen["DPP_LLM_BASE_URL"] == WITHHELD
    assert "DPP_LLM_API_KEY" not in seen
    assert not any("a-secret" in value or "llm.example" in value for value in seen.values())
    assert engine.read_answer_engine(seen) == engine.read_answer_engine(secret)


def test_pack_decision_a_part_of_a_micro_is_a_micro() -> None:
    chosen = engine.read_answer_engine(LLM)
    assert chosen is not None
    assert chosen.cost_micros(tokens_in=1, tokens_out=0) == 1
    assert chosen.cost_micros(tokens_in=1_000, tokens_out=1_000) == 750
    assert chosen.affordable_tokens(tokens_in=1_000, micros=750) == 1_000
    assert chosen.affordable_tokens(tokens_in=1_000, micros=149) == 0


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"DPP_LLM_MODEL": ""}, "DPP_LLM_MODEL is not set, and DPP_LLM_BASE_URL is"),
        ({"DPP_LLM_INPUT_MICROS_PER_1K": ""}, "DPP_LLM_INPUT_MICROS_PER_1K is not set, and DPP_LLM_BASE_URL is"),
        ({"DPP_LLM_OUTPUT_MICROS_PER_1K": "x"}, "DPP_LLM_OUTPUT_MICROS_PER_1K is no whole number"),
        ({"DPP_LLM_BASE_URL": "llm.example"}, "DPP_LLM_BASE_URL is no http or https address"),
    ],
)
def test_pack_decision_half_an_engine_is_missing_its_other_half(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, str], fault: str
) -> None:
    for name, value in (LLM | change).items():
        monkeypatch.setenv(name, value)
    assert fault in decision.PACK.missing()


def test_pack_decision_example_fits_its_schema() -> None:
    assert DecisionInputs.model_validate(dict(decision.PACK.example)).mode == "brief"
    assert list(decision.PACK.missing()) == []
