"""Masks a match: enough is left to find it again, never enough to use it."""

from typing import Final

SHOWN_MAX: Final = 40
LONG: Final = 12
_KEEP_LAST_FOUR: Final = frozenset({"card", "iban"})
_KEEP_NOTHING: Final = frozenset({"kr_rrn", "password", "password_in_url", "private_key"})


def masked_match(match: str, kind: str) -> str:
    """Cards and accounts keep their last four, as receipts do; other long matches their first and last two."""
    head = tail = 0
    if kind in _KEEP_LAST_FOUR:
        tail = 4
    elif kind not in _KEEP_NOTHING and len(match) >= LONG:
        head = tail = 2
    hidden = "*" * min(len(match) - head - tail, SHOWN_MAX)
    return f"{_printable_unmasked_part(match[:head])}{hidden}{_printable_unmasked_part(match[len(match) - tail :])}"


def _printable_unmasked_part(piece: str) -> str:
    """Without line breaks and characters that change the writing direction."""
    return "".join(character if character.isprintable() else "*" for character in piece)
