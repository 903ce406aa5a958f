"""The embedded engine: the sentences of a context that answer a question, or none.

BM25 ranks the sentences; then the best one is scored by the share of the question's words it contains, weighted by
their rarity, and by whether it has the kind of thing asked for, such as a number. Below a threshold the engine answers
that the context has no answer.
"""

import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from runs.packs.decision import sentences, words
from runs.packs.decision.sentences import Span
from runs.packs.decision.words import AskedWord

ANSWERED_FROM: Final = 0.5
"""Least score of an answer. Tuned on one half of tests/data/decision_questions.json, verified on the other."""
PASSAGES_MAX: Final = 5
_K1: Final = 1.2
_B: Final = 0.4
_BEFORE: Final = 0.5
"""Weight of a word in the sentence before: `The fee is fixed. It is 3 dollars.`"""
_PASSAGE_SHARE: Final = 0.5
_HEADING_CHARACTERS: Final = 40

_NUMBER: Final = (
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|sixty|hundred|"
    r"thousand|million|half|once|twice|no|zero)\b|"
    r"(?:한|두|세|네|다섯|여섯|일곱|여덟|아홉|열|스무|반|매)\s?(?:개|명|번|시간|달|주|해|살|일|회|가지|곳)|"
    r"하루|이틀|사흘|일주일|절반|없"
)
_TIME: Final = (
    r"\d\s*(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|h\b|초|분|시|일|주|개월|달|년|월)|"
    r"\b(?:hours?|days?|weeks?|months?|years?|minutes?|noon|midnight|daily|weekly|monthly|spring|summer|autumn|winter|"
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|june|july|august|september|"
    r"october|november|december|when|after|before|until|during|only)\b|하루|이틀|일주일|한 ?달|한 ?시간|요일|아침|저녁|"
    r"정오|자정|매일|매주|매월|매년|봄|여름|가을|겨울|때|후|전|까지|부터|에만"
)
# What questions ask for, and the pattern of a passage that has it. Compiled here: each run is a process of its own.
_CUES: Final = tuple(
    (re.compile(asking, re.IGNORECASE), re.compile(having, re.IGNORECASE))
    for asking, having in (
        (r"\bhow (?:long|often)\b|며칠|얼마나 오래|기간|몇 ?(?:초|분|시간|일|주|개월|달|년|월)|\bwhen\b|언제", _TIME),
        (
            r"\bhow (?:much|many|far|old|high|tall|large|big|fast)\b|얼마|몇|\bwhat (?:percentage|number|price)\b",
            _NUMBER,
        ),
    )
)


@dataclass(frozen=True, kw_only=True)
class Passage:
    """`context[start:end] == text`, always."""

    start: int
    end: int
    text: str
    score: float

    def overlaps(self, other: "Passage") -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, kw_only=True)
class FoundAnswer:
    """`score` says how well the best passage fits the question; it is no probability."""

    answered: bool
    score: float
    passages: Sequence[Passage]


def extract_answer(question: str, context: str) -> FoundAnswer:
    """The passages that answer, best first; where none does, the nearest one, and `answered` false."""
    asked = words.asked_words(question)
    spans = sentences.sentence_spans(context)
    if not asked or not spans:
        return FoundAnswer(answered=False, score=0.0, passages=[])
    index = _Index(context, spans, asked)
    ranked = index.ranked()
    if not ranked:
        return FoundAnswer(answered=False, score=0.0, passages=[])
    cue = next((having for asking, having in _CUES if asking.search(question)), None)
    scored = sorted(((index.score(at, cue), at) for at in ranked[: 2 * PASSAGES_MAX]), key=lambda pair: -pair[0])
    best = scored[0][0]
    passages: list[Passage] = []
    for score, at in scored:
        passage = index.passage(at, score)
        is_near = score >= max(_PASSAGE_SHARE * best, 0.01) and len(passages) < PASSAGES_MAX
        if is_near and not any(passage.overlaps(other) for other in passages):
            passages.append(passage)
    return FoundAnswer(answered=best >= ANSWERED_FROM, score=round(best, 3), passages=passages)


class _Index:
    """Which word stands in which sentence, and how often; built from the words' places, not by reading every word."""

    def __init__(self, context: str, spans: Sequence[Span], asked: Sequence[AskedWord]) -> None:
        self._context = context
        self._spans = spans
        text, starts = _searchable(context, spans)
        counts = _count(text, starts, asked)
        self._words = [_Known.of(word, counts, among=len(spans)) for word in asked]
        self._mean_length = sum(span.end - span.start for span in spans) / len(spans)

    def ranked(self) -> list[int]:
        """Sentences that hold a word, by BM25; a word of the sentence before counts in part."""
        totals: dict[int, float] = {}
        for word in self._words:
            for at, times in word.times.items():
                totals[at] = totals.get(at, 0.0) + word.rarity * self._saturated(at, times)
                after = at + 1
                if after < len(self._spans) and after not in word.times:
                    part = _BEFORE * word.presence[at]
                    totals[after] = totals.get(after, 0.0) + word.rarity * self._saturated(after, part)
        return sorted(totals, key=lambda at: (-totals[at], at))

    def _saturated(self, at: int, times: float) -> float:
        length = (self._spans[at].end - self._spans[at].start) / self._mean_length
        return times * (_K1 + 1) / (times + _K1 * (1 - _B + _B * length))

    def score(self, at: int, cue: "re.Pattern[str] | None") -> float:
        held = sum(
            word.rarity * max(word.presence.get(at, 0.0), _BEFORE * word.presence.get(at - 1, 0.0))
            for word in self._words
        )
        coverage = held / sum(word.rarity for word in self._words)
        kind = 0.0
        if cue is not None:
            start, end = self._spans[at].start, self._spans[self._last_of(at)].end
            kind = 1.0 if cue.search(self._context, start, end) else -1.0
        return 1 / (1 + math.exp(-(_STEEPNESS * (coverage - _MIDDLE) + _KIND * kind)))

    def passage(self, at: int, score: float) -> Passage:
        """The sentence, with the one before where that holds words it lacks, and the one after a mere heading."""
        lacks = any(word.presence.get(at - 1, 0.0) > word.presence.get(at, 0.0) for word in self._words)
        start, end = self._spans[at - 1 if lacks else at].start, self._spans[self._last_of(at)].end
        return Passage(start=start, end=end, text=self._context[start:end], score=round(score, 3))

    def _last_of(self, at: int) -> int:
        """A heading, which says nothing by itself, goes with what it stands over."""
        span = self._spans[at]
        is_heading = (
            span.end - span.start <= _HEADING_CHARACTERS and self._context[span.end - 1] not in sentences.END_MARKS
        )
        return at + 1 if is_heading and at + 1 < len(self._spans) else at


@dataclass(frozen=True)
class _Known:
    """Where one word stands in the context, by sentence: how often, and which share of its parts."""

    rarity: float
    times: Mapping[int, float]
    presence: Mapping[int, float]

    @classmethod
    def of(cls, word: AskedWord, counts: Mapping[str, Mapping[int, int]], *, among: int) -> "_Known":
        times: dict[int, float] = {}
        presence: dict[int, float] = {}
        share = 1 / len(word.parts)
        for part in word.parts:
            for at, count in counts[part].items():
                times[at] = times.get(at, 0.0) + share * count
                presence[at] = presence.get(at, 0.0) + share
        # One that the context does not know weighs most: it is what the question may be about.
        having = share * sum(len(counts[part]) for part in word.parts)
        return cls(rarity=math.log(1 + (among - having + 0.5) / (having + 0.5)), times=times, presence=presence)


_STEEPNESS: Final = 7.0
_MIDDLE: Final = 0.42
_KIND: Final = 0.6


def _searchable(context: str, spans: Sequence[Span]) -> tuple[str, list[int]]:
    """The text to search and where its sentences begin. Korean that comes letter by letter is joined first."""
    if unicodedata.is_normalized("NFC", context):
        return context, [span.start for span in spans]
    joined = [unicodedata.normalize("NFC", context[span.start : span.end]) for span in spans]
    starts = [0]
    for text in joined:
        starts.append(starts[-1] + len(text) + 1)
    return "\n".join(joined), starts[:-1]


def _count(text: str, starts: Sequence[int], asked: Sequence[AskedWord]) -> dict[str, dict[int, int]]:
    counts: dict[str, dict[int, int]] = {part: {} for word in asked for part in word.parts}

    def add(part: str, place: int) -> None:
        at = max(0, bisect_right(starts, place) - 1)
        counts[part][at] = counts[part].get(at, 0) + 1

    for part in {part for word in asked if not word.is_stem for part in word.parts}:
        place = text.find(part)
        while place >= 0:
            add(part, place)
            place = text.find(part, place + 1)
    stems = words.word_pattern(list(asked))
    if stems is not None:
        for match in stems.finditer(text):
            add(_as_asked(match[1], counts), match.start())
    return counts


def _as_asked(found: str, counts: Mapping[str, object]) -> str:
    """A stem as the question has it. A long s, a dotted I, the Kelvin sign match what they do not lower to."""
    lower = found.lower()
    if lower in counts:
        return lower
    return next(part for part in counts if re.fullmatch(re.escape(part), found, re.IGNORECASE))
