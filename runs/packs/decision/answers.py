"""The form of an answer, whichever engine gives it."""

import re
from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from runs.packs.decision.extractive import Passage

_NO_CONTEXT: Final = {
    "ko": "문맥이 주어지지 않아 답할 수 없습니다.",
    "en": "There is no context to answer this question from.",
}
_NOT_ANSWERED: Final = {
    "ko": "주어진 문맥에는 이 질문의 답이 없습니다.",
    "en": "The context does not answer this question.",
}


def language_of(question: str) -> str:
    return "ko" if re.search(r"[가-힣]", question) else "en"


def no_context(question: str) -> str:
    return _NO_CONTEXT[language_of(question)]


def not_answered(question: str) -> str:
    return _NOT_ANSWERED[language_of(question)]


def answer_data(
    *, text: str, answered: bool, confidence: float, evidence: Sequence[Passage], engine: str
) -> dict[str, JsonValue]:
    """`confidence` is a score: it orders answers, and is no share of right ones. It touches no money."""
    return {
        "answer_text": text,
        "answered": answered,
        "confidence": confidence,
        "confidence_kind": "score",
        "evidence": [
            {"start": passage.start, "end": passage.end, "text": passage.text, "score": passage.score}
            for passage in evidence
        ],
        "engine": engine,
    }
