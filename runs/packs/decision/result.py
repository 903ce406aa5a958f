"""What a decision run answers."""

from typing import Literal

from pydantic import BaseModel, Field


class DecisionEvidence(BaseModel):
    """A passage of the context: `context[start:end]` is `text`, counted in Unicode characters."""

    start: int
    end: int
    text: str
    score: float


class DecisionResult(BaseModel):
    """The answer to the question, and what it rests on."""

    answer_text: str = Field(description="The answer; where there is none, a sentence that says so.")
    answered: bool
    confidence: float = Field(ge=0, le=1, description="A score: it orders answers, and is no probability.")
    confidence_kind: Literal["score"]
    evidence: list[DecisionEvidence]
    engine: Literal["embedded", "llm"]
    model: str | None = Field(default=None, description="Of the language model, where `engine` is llm.")
