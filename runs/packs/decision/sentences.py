"""Where the sentences of a text begin and end."""

import re
from dataclasses import dataclass
from typing import Final

# An end mark, what may close after it, and space; or a line's end. Korean and English end alike.
END_MARKS: Final = ".!?。！？…"  # noqa: RUF001  as written in Korean, Japanese and Chinese
_BOUNDARY: Final = re.compile(rf"(?<=[{END_MARKS}])[\"'”’)\]]*\s+|\n\s*")  # noqa: RUF001  closing quotes
_ABBREVIATION: Final = re.compile(
    r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|No|Nos|Fig|Inc|Ltd|Co|Corp|vs|etc|approx|cf|al|e\.g|i\.e|a\.m|p\.m)\.)$"
)
_LONGEST_ABBREVIATION: Final = 8


@dataclass(frozen=True, slots=True)
class Span:
    """`text[start:end]`, in characters."""

    start: int
    end: int


def sentence_spans(text: str) -> list[Span]:
    """Every sentence without the space around it. A line break ends one: headings and list items stand alone."""
    found: list[Span] = []
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        before = text[max(start, boundary.start() - _LONGEST_ABBREVIATION) : boundary.start()]
        if "\n" not in boundary[0] and _ABBREVIATION.search(before):
            continue
        end = boundary.start() + len(boundary[0].rstrip())  # a closing quote belongs to the sentence
        _add(found, text, start, end)
        start = boundary.end()
    _add(found, text, start, len(text))
    return found


def _add(found: list[Span], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    end = start + len(piece.strip())
    if start < end:
        found.append(Span(start, end))
