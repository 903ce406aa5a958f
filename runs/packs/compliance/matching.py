"""The matches of one text rule in every piece of the subject."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from runs.packs.compliance import credentials, limited_child, pii
from runs.packs.compliance.inputs import PiiRule, RegexRule, SecretRule, TextRule
from runs.packs.compliance.subjects import Piece
from runs.packs.shared import regexes

REGEX_MATCHES_MAX: Final = 250_000
"""Most matches over all pieces. A pattern with more matches everything, and could not be redacted whole."""


class PieceMatch(NamedTuple):
    """A match, in characters of the piece's text."""

    piece: Piece
    start: int
    end: int
    kind: str
    certainty: str


def rule_matches(rule: TextRule, looked_at: list[Piece], *, seconds: float) -> Iterator[PieceMatch]:
    """Raises RuleStopped for a pattern of the caller's that takes too long or matches too often."""
    match rule:
        case PiiRule():
            finders = [(kind, partial(pii.pii_spans, kind)) for kind in rule.kinds]
            return _by_finders(finders, looked_at, fold=pii.folded_text)
        case SecretRule():
            known = [(kind, partial(credentials.credential_spans, kind)) for kind in credentials.FINDERS]
            return _by_finders(known, looked_at, fold=str.encode)
        case RegexRule():
            return _by_pattern(rule, looked_at, seconds)


Finder = tuple[str, Callable[[bytes], list[pii.Match]]]


def _by_finders(
    finders: Iterable[Finder], looked_at: Iterable[Piece], *, fold: Callable[[str], bytes]
) -> Iterator[PieceMatch]:
    finders = list(finders)
    for piece in looked_at:
        data = fold(piece.text)
        found = [(kind, match) for kind, find in finders for match in find(data)]
        at = regexes.character_offsets(data, (edge for _, match in found for edge in match[:2]))
        for kind, match in sorted(found, key=lambda one: one[1]):
            yield PieceMatch(piece, at[match.start], at[match.end], kind, match.certainty)


def _by_pattern(rule: RegexRule, looked_at: list[Piece], seconds: float) -> Iterator[PieceMatch]:
    spans = limited_child.run_in_limited_child(lambda: _pattern_spans(rule, looked_at), seconds=seconds)
    for piece, of_piece in zip(looked_at, spans, strict=True):
        at = regexes.character_offsets(piece.text.encode(), (edge for span in of_piece for edge in span))
        for start, end in of_piece:
            yield PieceMatch(piece, at[start], at[end], "regex", pii.FORM)


def _pattern_spans(rule: RegexRule, looked_at: list[Piece]) -> list[list[tuple[int, int]]]:
    """Empty matches are none: there is nothing to show or to replace."""
    pattern: Any = regexes.compiled_regex(rule.pattern, ignore_case=rule.ignore_case)
    found, count = [], 0
    for piece in looked_at:
        spans = [match.span() for match in pattern.finditer(piece.text.encode())]
        found.append([(start, end) for start, end in spans if start < end])
        count += len(found[-1])
        if count > REGEX_MATCHES_MAX:
            raise OverflowError
    return found


def matches_nothing(found: Iterable[PieceMatch]) -> bool:
    return next(iter(found), None) is None
