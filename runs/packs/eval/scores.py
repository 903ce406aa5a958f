"""The scores, each as what one item shows and how items add up. All between 0 and 1, but for error rates above 1.

Formulas and defaults are those of sacrebleu (BLEU, chrF), rouge-score (ROUGE-L) and jiwer (WER, CER).
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from rapidfuzz.distance import LCSseq, Levenshtein

Counts = tuple[int, ...]
Overlap = Literal["f1", "precision", "recall"]
BLEU_ORDER: Final = 4
CHRF_ORDER: Final = 6
CHRF_BETA: Final = 2
_LOG_OF_ZERO: Final = -9_999_999_999.0


class Measured(NamedTuple):
    """One item's score, and the counts that add up over items where the whole is not the mean."""

    score: float
    counts: Counts = ()


def added_counts(counts: Sequence[Counts]) -> Counts:
    return tuple(map(sum, zip(*counts, strict=True)))


# Overlap


def token_overlap(output: list[str], reference: list[str], measure: Overlap) -> float:
    """Tokens in common, wherever they stand."""
    return _overlap(sum((Counter(output) & Counter(reference)).values()), len(output), len(reference), measure)


def rouge_l(output: list[str], reference: list[str], measure: Overlap) -> float:
    """Tokens in common in their order."""
    common = LCSseq.similarity(output, reference)
    return _overlap(common, len(output), len(reference), measure)


def _overlap(common: int, of_output: int, of_reference: int, measure: Overlap) -> float:
    """Two empty texts agree."""
    if of_output == of_reference == 0:
        return 1.0
    precision = common / of_output if of_output else 0.0
    recall = common / of_reference if of_reference else 0.0
    if measure != "f1":
        return precision if measure == "precision" else recall
    return 2 * precision * recall / (precision + recall) if common else 0.0


# BLEU


def bleu_score(output: list[str], reference: list[str]) -> Measured:
    correct, total = [], []
    for order in range(1, BLEU_ORDER + 1):
        grams = _grams(output, order)
        correct.append(sum((grams & _grams(reference, order)).values()))
        total.append(sum(grams.values()))
    counts = (len(output), len(reference), *correct, *total)
    return Measured(_bleu(counts, is_sentence=True), counts)


def bleu_of_all(counts: Sequence[Counts]) -> float:
    return _bleu(added_counts(counts), is_sentence=False)


def _grams(tokens: list[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[start:] for start in range(order)), strict=False))


def _bleu(counts: Counts, *, is_sentence: bool) -> float:
    """Exponential smoothing; a sentence is judged by the orders it is long enough for."""
    of_output, of_reference = counts[:2]
    correct, total = counts[2 : 2 + BLEU_ORDER], counts[2 + BLEU_ORDER :]
    if not any(correct):
        return 0.0
    precisions, halving, orders = [0.0] * BLEU_ORDER, 1.0, BLEU_ORDER
    for index, (hits, grams) in enumerate(zip(correct, total, strict=True)):
        if grams == 0:
            break
        if is_sentence:
            orders = index + 1
        if hits == 0:
            halving *= 2
        precisions[index] = hits / grams if hits else 1 / (halving * grams)
    logs = [math.log(precision) if precision else _LOG_OF_ZERO for precision in precisions[:orders]]
    brevity = 1.0 if of_output >= of_reference else math.exp(1 - of_reference / of_output)
    return brevity * math.exp(sum(logs) / orders)


# chrF


def chrf_score(output: str, reference: str) -> Measured:
    """Over characters without spaces. One order at a time: all at once would hold six copies of the texts."""
    output, reference = "".join(output.split()), "".join(reference.split())
    counts: list[int] = []
    for order in range(1, CHRF_ORDER + 1):
        mine, theirs = _strings(output, order), _strings(reference, order)
        in_reference = sum(theirs.values())
        counts += [sum(mine.values()) if in_reference else 0, in_reference, sum((mine & theirs).values())]
    return Measured(_chrf(tuple(counts)), tuple(counts))


def chrf_of_all(counts: Sequence[Counts]) -> float:
    return _chrf(added_counts(counts))


def _strings(text: str, order: int) -> Counter[str]:
    return Counter(text[start : start + order] for start in range(len(text) - order + 1))


def _chrf(counts: Counts) -> float:
    precision = recall = 0.0
    orders = 0
    for index in range(CHRF_ORDER):
        of_output, of_reference, common = counts[3 * index : 3 * index + 3]
        if of_output and of_reference:
            precision, recall, orders = precision + common / of_output, recall + common / of_reference, orders + 1
    if orders == 0 or precision + recall == 0:
        return 0.0
    precision, recall = precision / orders, recall / orders
    factor = CHRF_BETA**2
    return (1 + factor) * precision * recall / (factor * precision + recall)


# Error rates


def error_rate(output: Sequence[str], reference: Sequence[str]) -> Measured:
    """Edits for each part of the reference; where that is empty, as if it had one."""
    counts = (Levenshtein.distance(output, reference), len(reference))
    return Measured(error_rate_of_all([counts]), counts)


def error_rate_of_all(counts: Sequence[Counts]) -> float:
    edits, of_reference = added_counts(counts)
    return edits / max(1, of_reference)
