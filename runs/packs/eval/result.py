"""What an eval run answers."""

from typing import Literal

from pydantic import BaseModel, Field


class EvalMetricScore(BaseModel):
    """One metric over all items that were scored."""

    name: str
    type: Literal["exact_match", "token_f1", "rouge_l", "chrf", "bleu", "wer", "cer", "json_equal", "regex", "numeric"]
    score: float = Field(description="What the threshold holds: of BLEU, chrF, WER and CER over the sums of all items.")
    mean: float
    better: Literal["higher", "lower"]
    threshold: float | None
    passed: bool | None = Field(description="Null without a threshold.")


class EvalItemScore(BaseModel):
    """One item with its score by each metric."""

    id: str
    passed: bool | None
    scores: dict[str, float]


class EvalNotEvaluated(BaseModel):
    """Items that were not scored, and why."""

    items: int
    reason: Literal["HOLD_EXHAUSTED", "OUT_OF_TIME"] | None


class EvalResult(BaseModel):
    """The scores of all, and of each item."""

    passed: bool | None = Field(description="Null without thresholds; false where an item was not scored.")
    complete: bool
    metrics: list[EvalMetricScore]
    items: list[EvalItemScore]
    not_evaluated: EvalNotEvaluated
