"""Answers a question from a context, or says that the context does not (DPP-61).

inputs.py     the inputs                        answers.py   the form of every answer
embedded.py   the engine that is always there: extractive.py finds, words.py and sentences.py read
engine.py     the language model an operator may set; model.py asks it, completions.py speaks its
              protocol, and the worker carries it there with the key
"""

import os
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from runs.packs.decision import embedded, engine, model
from runs.packs.decision.engine import AnswerEngine
from runs.packs.decision.inputs import DecisionInputs
from runs.packs.decision.result import DecisionResult
from runs.packs.pack import MEBIBYTE, Estimate, Pack, Price, Work


def _prices(chosen: AnswerEngine | None) -> Sequence[Price]:
    if chosen is None:
        return [Price(unit="run", micros=embedded.RUN_MICROS, note="or the whole hold, where that is less")]
    return [
        Price(unit="1,000 tokens read", micros=chosen.input_micros_per_1k, note=f"by {chosen.model}"),
        Price(unit="1,000 tokens written", micros=chosen.output_micros_per_1k, note=f"by {chosen.model}"),
    ]


def _decision_pack_estimate(inputs: DecisionInputs, chosen: AnswerEngine | None) -> Estimate:
    if chosen is None:
        return Estimate(least_micros=embedded.RUN_MICROS, most_micros=embedded.RUN_MICROS)
    tokens_in = model.tokens_in_at_most(model.model_messages(inputs))
    most_out = model.TOKENS_MAX[inputs.mode]
    return Estimate(
        least_micros=chosen.cost_micros(tokens_in=tokens_in // 8, tokens_out=1),
        most_micros=chosen.cost_micros(tokens_in=tokens_in, tokens_out=most_out),
    )


def _execute_decision_pack(work: Work[DecisionInputs]) -> dict[str, JsonValue]:
    chosen = engine.read_answer_engine(os.environ)
    return embedded.answer_embedded(work) if chosen is None else model.answer_by_model(work, chosen)


def decision_pack(environ: Mapping[str, str]) -> Pack[DecisionInputs]:
    """The pack as this environment configures it: its price depends on the engine."""
    chosen = engine.read_answer_engine(environ)
    return Pack(
        name="decision",
        summary="Answers a question from a given context, with the passages the answer rests on.",
        inputs=DecisionInputs,
        result=DecisionResult,
        prices=_prices(chosen),
        estimate=lambda inputs: _decision_pack_estimate(inputs, chosen),
        execute=_execute_decision_pack,
        price_version="1" if chosen is None else chosen.price_version,
        example={
            "question": "How long are results kept?",
            "context": "Results are kept for 30 days. Inputs are deleted with them.",
            "mode": "brief",
        },
        memory_bytes=256 * MEBIBYTE,
        rehearsal="example" if chosen is None else None,
        reach=engine.engine_reach,
        environment=engine.NAMES,
        withheld=(engine.BASE_URL,),
        missing=lambda: engine.engine_faults(os.environ),
    )


PACK = decision_pack(os.environ)
