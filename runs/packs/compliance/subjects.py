"""The subject of the rules: one text, or every text, name and number of a document; and its redacted form."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pydantic import JsonValue

Place = tuple[str | int, ...]


@dataclass
class Piece:
    """One text. `path` is its place in the document, None where the text is all there is."""

    text: str
    path: Place | None
    is_name: bool = False
    covered: list[tuple[int, int, str]] = field(default_factory=list)
    """Spans to replace, each with its replacement."""


def subject_pieces(text: str | None, document: JsonValue) -> list[Piece]:
    return [Piece(text, None)] if text is not None else list(_inside(document))


def _inside(document: JsonValue) -> Iterator[Piece]:
    waiting: list[tuple[Place, JsonValue]] = [((), document)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, str):
            yield Piece(node, path)
        elif isinstance(node, dict):
            for name, value in node.items():
                yield Piece(name, (*path, name), is_name=True)
                waiting.append(((*path, name), value))
        elif isinstance(node, list):
            waiting.extend(((*path, index), value) for index, value in enumerate(node))
        elif node is not None and not isinstance(node, bool):
            yield Piece(json.dumps(node), path)


class Redaction:
    """The subject without its matches, and its places without them."""

    def __init__(self, looked_at: Iterable[Piece]) -> None:
        self._texts: dict[tuple[Place | None, bool], str] = {}
        for piece in looked_at:
            if piece.covered:
                self._texts[piece.path, piece.is_name] = redacted_subject(piece)

    def text(self, text: str) -> str:
        return self._texts.get((None, False), text)

    def pointer(self, path: Place) -> str:
        """A JSON pointer (RFC 6901) that shows no match in a name."""
        shown = ""
        for depth, part in enumerate(path, 1):
            name = self._texts.get((path[:depth], True), part) if isinstance(part, str) else part
            shown += "/" + str(name).replace("~", "~0").replace("/", "~1")
        return shown

    def document(self, node: JsonValue, path: Place = ()) -> JsonValue:
        """Nested no deeper than a request may be. A number with a match becomes a text; equal names are numbered."""
        if isinstance(node, list):
            return [self.document(value, (*path, index)) for index, value in enumerate(node)]
        if not isinstance(node, dict):
            return self._texts.get((path, False), node)
        made: dict[str, JsonValue] = {}
        for name, value in node.items():
            shown = wanted = self._texts.get(((*path, name), True), name)
            number = 1
            while shown in made or (shown != name and shown in node):
                number += 1
                shown = f"{wanted}#{number}"
            made[shown] = self.document(value, (*path, name))
        return made


def redacted_subject(piece: Piece) -> str:
    shown, end = [], 0
    for first, last, label in merged_spans(piece.covered):
        shown += [piece.text[end:first], f"[{label}]"]
        end = last
    return "".join([*shown, piece.text[end:]])


def merged_spans(covered: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Overlapping spans become one, named for the first; touching ones of one name, too."""
    found: list[tuple[int, int, str]] = []
    for first, last, label in sorted(covered, key=lambda one: (one[0], -one[1])):
        before = found[-1] if found else None
        if before and (first < before[1] or (first == before[1] and label == before[2])):
            found[-1] = (before[0], max(before[1], last), before[2])
        else:
            found.append((first, last, label))
    return found
