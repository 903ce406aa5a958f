"""What an entry of the audit trail changed, in words for a page: no literals of Python, no micros."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

MICROS: Final = "_usd_micros"
_MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}")


@dataclass(frozen=True, slots=True)
class ChangedFact:
    """Of one name: what it is now, and what it was where that was another thing."""

    name: str
    became: str | int
    was: str | int | None = None
    is_money: bool = False
    """Amounts stay numbers: the page writes them as it writes all amounts."""


def changed_facts(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[ChangedFact]:
    """What was not set before and is not set now says nothing, and is left out."""
    old = before or {}
    return [
        ChangedFact(
            name=name.removesuffix(MICROS).replace("_", " "),
            became=_trail_amount_or_words(name, value),
            was=_trail_amount_or_words(name, old[name]) if name in old else None,
            is_money=name.endswith(MICROS),
        )
        for name, value in (after or {}).items()
        if not (value is None and old.get(name) is None)
    ]


def _trail_amount_or_words(name: str, value: Any) -> str | int:
    is_amount = name.endswith(MICROS) and isinstance(value, int)
    return value if is_amount else _in_words(value)


def _in_words(value: Any) -> str:
    match value:
        case None | [] | {}:
            words = "none"
        case bool():
            words = "yes" if value else "no"
        case str() if _MOMENT.match(value):
            words = _trail_moment_in_words(value)
        case list():
            words = ", ".join(_in_words(one) for one in value)
        case dict():
            words = ", ".join(f"{key} {_in_words(one)}" for key, one in value.items())
        case _:
            words = str(value)
    return words


def _trail_moment_in_words(text: str) -> str:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{at.astimezone(UTC) if at.tzinfo else at:%Y-%m-%d %H:%M:%S}"
