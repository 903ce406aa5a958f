"""Right or wrong: the metrics without degrees."""

import json
import re
import unicodedata
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, NoReturn

Take = Literal["whole", "first", "last"]
DIGITS_MAX: Final = 400
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4}(?![0-9]))?")


class NotJson(ValueError):  # noqa: N818  named for what was read
    """Not one JSON document."""


def same_text(output: str, expected: str, *, normalise: bool) -> bool:
    """Normalised: compatible forms, case, and the amount of space do not count."""
    if not normalise:
        return output == expected
    return _normalised_for_judging(output) == _normalised_for_judging(expected)


def _normalised_for_judging(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def read_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_judged_json_constant, parse_float=Decimal)
    except (ValueError, RecursionError, InvalidOperation):
        raise NotJson from None


def _refuse_judged_json_constant(_constant: str) -> NoReturn:
    raise ValueError


def same_json(one: Any, other: Any) -> bool:
    """Names in any order; 1 equals 1.0, and neither equals true. Without recursion: what was read may be deep."""
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            pairs.extend((value, right[name]) for name, value in left.items())
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            pairs.extend(zip(left, right, strict=True))
        elif isinstance(left, bool) is not isinstance(right, bool) or left != right:
            return False
    return True


def judged_number(text: str, take: Take) -> Decimal | None:
    """The number a text is, or the first or last in it. Commas part thousands; full-width digits count."""
    plain = unicodedata.normalize("NFKC", text).replace("\u2212", "-").strip()
    if take == "whole":
        found = [plain] if _NUMBER.fullmatch(plain) else []
    else:
        found = [match.group() for match in _NUMBER.finditer(plain)]
    if not found:
        return None
    chosen = found[0 if take == "first" else -1].replace(",", "")
    try:
        return Decimal(chosen) if len(chosen) <= DIGITS_MAX else None
    except InvalidOperation:
        return None


def is_close(output: Decimal, expected: Decimal, *, absolute: Decimal, relative: Decimal) -> bool:
    """Within the larger of both tolerances."""
    return abs(output - expected) <= max(absolute, relative * abs(expected))
