"""Scores outputs against expected ones. Scores are for people and gates; they do not affect money."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from pydantic import JsonValue

from runs.packs.eval import judging, scores, tokens
from runs.packs.eval.inputs import (
    Bleu,
    Cer,
    Chrf,
    EvalInputs,
    ExactMatch,
    Item,
    JsonEqual,
    Metric,
    Numeric,
    Regex,
    RougeL,
    TokenF1,
    Wer,
)
from runs.packs.eval.result import EvalResult
from runs.packs.eval.scores import Counts, Measured
from runs.packs.pack import MEBIBYTE, Estimate, HoldExhausted, Pack, PackFailed, Price, Work
from runs.packs.shared import regexes

RUN_MICROS: Final = 1_000
PAIR_MICROS: Final = 10
CHARACTERS_EACH: Final = 1_000
DECIMALS: Final = 6
LAST_SECONDS: Final = 1.0
"""Seconds kept for the answer. An item that has not begun by then is not scored."""
HOLD_EXHAUSTED: Final = "HOLD_EXHAUSTED"
OUT_OF_TIME: Final = "OUT_OF_TIME"
_OF_ALL: Final[dict[type, Callable[[Sequence[Counts]], float]]] = {
    Bleu: scores.bleu_of_all,
    Chrf: scores.chrf_of_all,
    Wer: scores.error_rate_of_all,
    Cer: scores.error_rate_of_all,
}


@dataclass(frozen=True)
class Scored:
    item: Item
    measured: list[Measured]


def _execute_eval_pack(work: Work[EvalInputs]) -> dict[str, JsonValue]:
    """Score item by item, each charged before it begins; report the items that hold or time did not reach."""
    inputs = work.inputs
    work.meter.charge(RUN_MICROS)
    scored: list[Scored] = []
    stopped: str | None = None
    for item in inputs.items:
        if work.seconds_left() <= LAST_SECONDS:
            stopped = OUT_OF_TIME
            break
        try:
            work.meter.charge(_item_micros(item, inputs.metrics))
        except HoldExhausted:
            stopped = HOLD_EXHAUSTED
            break
        scored.append(Scored(item, [measure_item(metric, item) for metric in inputs.metrics]))
    if not scored:  # nothing to deliver
        raise HoldExhausted if stopped == HOLD_EXHAUSTED else PackFailed("There was no time to score a single item.")
    work.reliability = len(scored) / len(inputs.items)
    work.log("items scored", items=len(scored), metrics=len(inputs.metrics))
    return _eval_pack_answer(inputs, scored, stopped)


def measure_item(metric: Metric, item: Item) -> Measured:
    match metric:
        case TokenF1() | RougeL():
            return Measured(_overlap(metric, item.output, _eval_reference_text(metric, item)))
        case Chrf():
            return scores.chrf_score(
                tokens.composed_text(item.output), tokens.composed_text(_eval_reference_text(metric, item))
            )
        case Bleu():
            output, reference = (tokens.of_mteval(text, metric.tokens) for text in (item.output, item.expected or ""))
            return scores.bleu_score(output, reference)
        case Wer():
            return scores.error_rate(
                *(tokens.composed_text(text).split() for text in (item.output, item.expected or ""))
            )
        case Cer():
            return scores.error_rate(*(_characters(metric, text) for text in (item.output, item.expected or "")))
        case _:
            return Measured(float(_is_right(metric, item)))


def _overlap(metric: TokenF1 | RougeL, output: str, reference: str) -> float:
    if metric.ignore_case:
        output, reference = output.lower(), reference.lower()
    ours, theirs = (tokens.of_letters(text, metric.tokens) for text in (output, reference))
    measure = scores.token_overlap if isinstance(metric, TokenF1) else scores.rouge_l
    return measure(ours, theirs, metric.measure)


def _eval_reference_text(metric: TokenF1 | RougeL | Chrf, item: Item) -> str:
    return (item.context if metric.against == "context" else item.expected) or ""


def _characters(metric: Cer, text: str) -> str:
    text = tokens.composed_text(text).strip()
    return "".join(text.split()) if metric.ignore_spaces else text


def _is_right(metric: ExactMatch | JsonEqual | Regex | Numeric, item: Item) -> bool:
    expected = item.expected or ""
    match metric:
        case ExactMatch():
            return judging.same_text(item.output, expected, normalise=metric.normalise)
        case JsonEqual():
            try:
                return judging.same_json(judging.read_json(item.output), judging.read_json(expected))
            except judging.NotJson:
                return False
        case Regex():
            pattern = regexes.compiled_regex(metric.pattern, ignore_case=metric.ignore_case)
            search = pattern.fullmatch if metric.whole else pattern.search
            return search(item.output.encode()) is not None
        case Numeric():
            ours, theirs = judging.judged_number(item.output, metric.take), judging.judged_number(expected, "whole")
            if ours is None or theirs is None:
                return False
            absolute, relative = Decimal(str(metric.absolute)), Decimal(str(metric.relative))
            return judging.is_close(ours, theirs, absolute=absolute, relative=relative)


# The answer


def _eval_pack_answer(inputs: EvalInputs, scored: list[Scored], stopped: str | None) -> dict[str, JsonValue]:
    """Items without a score did not pass."""
    whole = [_of_all(inputs, index, scored) for index in range(len(inputs.metrics))]
    verdicts = [one["passed"] for one in whole if one["passed"] is not None]
    return {
        "passed": all(verdicts) and stopped is None if verdicts else None,
        "complete": stopped is None,
        "metrics": whole,  # type: ignore[dict-item]  # a list is invariant
        "items": [_of_one(inputs, one) for one in scored],
        "not_evaluated": {"items": len(inputs.items) - len(scored), "reason": stopped},
    }


def _of_all(inputs: EvalInputs, index: int, scored: list[Scored]) -> dict[str, JsonValue]:
    """`mean` is over items. `score`, which the threshold holds, is over all their parts where the metric has such."""
    metric = inputs.metrics[index]
    found = [one.measured[index] for one in scored]
    mean = sum(one.score for one in found) / len(found)
    of_all = _OF_ALL.get(type(metric))
    score = mean if of_all is None else of_all([one.counts for one in found])
    return {
        "name": metric.called,
        "type": metric.type,
        "score": round(score, DECIMALS),
        "mean": round(mean, DECIMALS),
        "better": "lower" if _is_error_rate(metric) else "higher",
        "threshold": inputs.thresholds.get(metric.called),
        "passed": _passes(inputs, metric, score),
    }


def _of_one(inputs: EvalInputs, scored: Scored) -> dict[str, JsonValue]:
    pairs = list(zip(inputs.metrics, scored.measured, strict=True))
    verdicts = [verdict for metric, one in pairs if (verdict := _passes(inputs, metric, one.score)) is not None]
    return {
        "id": scored.item.id,
        "passed": all(verdicts) if verdicts else None,
        "scores": {metric.called: round(one.score, DECIMALS) for metric, one in pairs},
    }


def _passes(inputs: EvalInputs, metric: Metric, score: float) -> bool | None:
    """Compared as it is shown: a score that reads 0.7 has reached 0.7."""
    threshold = inputs.thresholds.get(metric.called)
    if threshold is None:
        return None
    shown = round(score, DECIMALS)
    return shown <= threshold if _is_error_rate(metric) else shown >= threshold


def _is_error_rate(metric: Metric) -> bool:
    return isinstance(metric, Wer | Cer)


# Price


def _item_micros(item: Item, metrics: list[Metric]) -> int:
    """Each thousand characters begun counts, an empty item as one."""
    characters = len(item.output) + len(item.expected or "") + len(item.context or "")
    return PAIR_MICROS * len(metrics) * max(1, -(-characters // CHARACTERS_EACH))


def _eval_pack_estimate(inputs: EvalInputs) -> Estimate:
    micros = RUN_MICROS + sum(_item_micros(item, inputs.metrics) for item in inputs.items)
    return Estimate(least_micros=micros, most_micros=micros)


EXAMPLE: Final = {
    "items": [
        {"id": "capital", "output": "서울은 대한민국의 수도이다.", "expected": "대한민국의 수도는 서울이다."},
        {"id": "sum", "output": "The total is 1,250.", "expected": "1250"},
    ],
    "metrics": [{"type": "token_f1"}, {"type": "chrf"}, {"type": "cer", "ignore_spaces": True}],
    "thresholds": {"token_f1": 0.5},
}

PACK = Pack(
    name="eval",
    summary="Scores outputs against expected ones: exact match, F1, ROUGE-L, chrF, BLEU, WER, CER, JSON, numbers.",
    inputs=EvalInputs,
    result=EvalResult,
    prices=[
        Price(unit="run", micros=RUN_MICROS),
        Price(unit="item and metric", micros=PAIR_MICROS, note="for each 1,000 characters of the item begun"),
    ],
    estimate=_eval_pack_estimate,
    execute=_execute_eval_pack,
    example=EXAMPLE,
    rehearsal="example",
    memory_bytes=256 * MEBIBYTE,
)
