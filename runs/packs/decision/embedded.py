"""Answers from the context's own sentences, without a model and without a network."""

from typing import Final

from pydantic import JsonValue

from runs.packs.decision import answers, extractive
from runs.packs.decision.inputs import DecisionInputs
from runs.packs.pack import Work

RUN_MICROS: Final = 50_000
NAME: Final = "embedded"


def answer_embedded(work: Work[DecisionInputs]) -> dict[str, JsonValue]:
    """Answer the question; costs min(50,000 micros, hold) a run, as specified."""
    work.meter.charge(min(RUN_MICROS, work.meter.left_micros))
    question, context = work.inputs.question, work.inputs.context
    if context is None or not context.strip():
        work.reliability = 0.0
        return answers.answer_data(
            text=answers.no_context(question), answered=False, confidence=0.0, evidence=[], engine=NAME
        )
    found = extractive.extract_answer(question, context)
    work.reliability = found.score
    passages = found.passages if work.inputs.mode == "full" else found.passages[:1]
    in_order = sorted(passages, key=lambda passage: passage.start)
    text = "\n".join(passage.text for passage in in_order) if found.answered else answers.not_answered(question)
    return answers.answer_data(
        text=text, answered=found.answered, confidence=found.score, evidence=passages, engine=NAME
    )
