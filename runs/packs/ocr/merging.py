"""One line read three ways, with both languages and with each alone: each stretch as its best reader has it.

With both languages loaded the engine decides word by word which one reads, and errs where a word has both scripts or
sits between words of the other: 금액은 becomes "SHS", "Queue에서" becomes digits. Alone, each language reads its own
words surely and the other's with little confidence, so that the confidences tell who is right. A word of both scripts
is put together: the syllables that Korean is sure of, and English's letters beside them.
"""

import re
import statistics
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Final

import numpy as np

from runs.packs.ocr.engine import Line, Rectangle, SeenWord, Symbol
from runs.packs.ocr.layout import Marks

"""Where the page has ink."""

SURE: Final = 0.85
"""Of a word; a line with less is read again."""
SYLLABLE_SURE: Final = 0.95
BOTH_BONUS: Final = 0.02
"""The reading with both languages stays where another is not clearly better."""
ENGLISH_SURE: Final = 0.7
"""Of a word without Hangul: whether it is letters or digits, English alone knows best."""
NEAR: Final = 2
SPACE: Final = 0.27
"""Of the distance from one syllable to the next: a wider gap is a space."""
_HANGUL: Final = re.compile(r"[\uac00-\ud7a3]")
_LATIN: Final = re.compile(r"[\x21-\x7e]")
_WRITTEN_TOGETHER: Final = re.compile(r"[0-9A-Za-z%)][\uac00-\ud7a3]|[\uac00-\ud7a3][\uac00-\ud7a3.,)]")


def is_doubtful(line: Line) -> bool:
    return any(word.confidence < SURE for word in line.words)


def merged(both: Line, korean: Line | None, english: Line | None) -> Line:
    """The best of each stretch of the line; stretches end where no reading has a word across."""
    readings = [line.words if line else () for line in (both, korean, english)]
    words: list[SeenWord] = []
    for left, right in _stretches([word for reading in readings for word in reading], both.box.height):
        choices = [[word for word in reading if left <= _middle(word.box) < right] for reading in readings]
        words += _best(choices)
    return Line(tuple(words)) if words else both


def _stretches(words: Sequence[SeenWord], height: int) -> list[tuple[int, int]]:
    touching = max(1, height // 10)
    found: list[tuple[int, int]] = []
    for word in sorted(words, key=lambda one: one.box.left):
        if found and word.box.left < found[-1][1] - touching:
            found[-1] = (found[-1][0], max(found[-1][1], word.box.right))
        else:
            found.append((word.box.left, word.box.right))
    return found


def _best(choices: Sequence[list[SeenWord]]) -> list[SeenWord]:
    both, korean, english = choices
    if not any(_HANGUL.search(word.text) for word in korean):
        korean = []  # it reads English letters as digits, and is sure of it
    scores = [_score(both) + BOTH_BONUS, _score(korean), _score(english)]
    best = (both, korean, english)[scores.index(max(scores))]
    if max(scores) < SURE and (spliced := _spliced(korean, english)) is not None:
        return [spliced]
    if scores[2] >= ENGLISH_SURE and not any(_HANGUL.search(word.text) for word in best):
        return english
    return best


def _score(words: Sequence[SeenWord]) -> float:
    return Line(tuple(words)).confidence if words else 0.0


def _spliced(korean: Sequence[SeenWord], english: Sequence[SeenWord]) -> SeenWord | None:
    """Korean's sure syllables, and what English reads beside them; None where the word is of one script."""
    read = [symbol for word in korean for symbol in word.symbols]
    syllables = [one for one in read if _HANGUL.fullmatch(one.text) and one.confidence >= SYLLABLE_SURE]
    if all(_HANGUL.fullmatch(one.text) for one in read):
        return None
    letters = [
        symbol
        for word in english
        for symbol in word.symbols
        if _LATIN.fullmatch(symbol.text)
        and not any(one.box.left - NEAR <= symbol.box.left < one.box.right for one in syllables)
    ]
    if not syllables or not letters:
        return None
    return _word(sorted([*syllables, *letters], key=lambda symbol: symbol.box.left))


def _word(symbols: Sequence[Symbol]) -> SeenWord:
    box = reduce(Rectangle.around, (symbol.box for symbol in symbols))
    text = "".join(symbol.text for symbol in symbols)
    return SeenWord(text, min(symbol.confidence for symbol in symbols) * SURE, box, tuple(symbols))


def _middle(box: Rectangle) -> float:
    return (box.left + box.right) / 2


def respaced(line: Line, marks: Marks) -> Line:
    """The engine makes a word of nearly each Korean syllable; where no space is printed they are joined again."""
    space = SPACE * _pitch(line)
    rows = np.array(marks[max(0, line.box.top) : line.box.bottom].any(axis=0), np.bool_, ndmin=1)
    words = [line.words[0]]
    for before, after in pairwise(line.words):
        last, first = before.symbols[-1], after.symbols[0]
        together = _WRITTEN_TOGETHER.match(last.text[-1] + first.text[0]) is not None
        if together and _blank_between(rows, last.box, first.box) < space:
            words[-1] = _joined(words[-1], after)
        else:
            words.append(after)
    return Line(tuple(words))


def _pitch(line: Line) -> float:
    """From syllable to next syllable, in pixels; 0 without any."""
    symbols = [symbol for word in line.words for symbol in word.symbols]
    steps = [
        _middle(after.box) - _middle(before.box)
        for before, after in pairwise(symbols)
        if _HANGUL.fullmatch(before.text) and _HANGUL.fullmatch(after.text)
    ]
    return statistics.median_low(steps) if steps else 0.0


def _blank_between(rows: Marks, left: Rectangle, right: Rectangle) -> int:
    """The widest white gap between the middles of two symbols: their boxes are guesses, the ink is not."""
    blank = ~rows[max(0, int(_middle(left))) : int(_middle(right)) + 1]
    widest = run = 0
    for white in blank:
        run = run + 1 if white else 0
        widest = max(widest, run)
    return widest


def _joined(before: SeenWord, after: SeenWord) -> SeenWord:
    letters = len(before.text) + len(after.text)
    confidence = (before.confidence * len(before.text) + after.confidence * len(after.text)) / letters
    return SeenWord(
        before.text + after.text, confidence, before.box.around(after.box), (*before.symbols, *after.symbols)
    )
