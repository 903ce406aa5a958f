"""A scope of caps in plain Python, written from the scripts' headers: its limits and counters, and what moves them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from budget.money import MAX_MICROS
from budget.redis.windows import PERIODS, UNDATED, cap_window

_COUNTER: Final = re.compile(r"-?[0-9]+", re.ASCII)
_SIZE: Final = re.compile(r"[0-9]+", re.ASCII)
_DATE: Final = re.compile(r"[1-9][0-9]{15}", re.ASCII)


class Lost(Exception):  # noqa: N818  a state of a scope
    """Something stands there, and it is not what the scripts write."""


@dataclass
class Scope:
    """A scope of caps: what its hash says, as numbers of any size."""

    revision: int
    date: str
    limits: dict[str, int | None]
    counted: dict[str, int]
    used: dict[str, int]

    @classmethod
    def of(cls, fields: dict[str, str]) -> "Scope | None":
        """None where none of its fields is there."""
        if not fields.keys() & {"revision", "date", "limits", "counted", "used"}:
            return None
        revision, date, *fours = (fields.get(name, "") for name in ("revision", "date", "limits", "counted", "used"))
        limits, counted, used = (dict(zip(PERIODS, text.split(" "), strict=False)) for text in fours)
        if not all(text.count(" ") == 3 for text in fours):
            raise Lost
        if not all(it == "-" or _SIZE.fullmatch(it) for it in limits.values()):
            raise Lost
        if not all(_COUNTER.fullmatch(it) and len(it) <= 18 for it in [*counted.values(), *used.values()]):
            raise Lost
        if not _SIZE.fullmatch(revision) or len(date) != 16 or not _SIZE.fullmatch(date):
            raise Lost
        return cls(
            int(revision),
            date,
            {it: None if text == "-" else int(text) for it, text in limits.items()},
            {it: int(text) for it, text in counted.items()},
            {it: int(text) for it, text in used.items()},
        )

    @classmethod
    def of_counters(cls, fields: dict[str, str]) -> "Scope | None":
        """What moves counters asks for no more than these: of a scope that is lost otherwise it is void."""
        try:
            return cls.of(fields | {"revision": "0", "limits": "- - - -"})
        except Lost:
            return None

    def counters(self) -> dict[str, str]:
        return {name: text for name, text in self.fields().items() if name in {"counted", "used"}}

    def fields(self) -> dict[str, str]:
        return {
            "revision": str(self.revision),
            "date": self.date,
            "limits": " ".join("-" if self.limits[it] is None else str(self.limits[it]) for it in PERIODS),
            "counted": " ".join(str(self.counted[it]) for it in PERIODS),
            "used": " ".join(str(self.used[it]) for it in PERIODS),
        }

    def begin(self, date: str) -> None:
        """A later date ends the windows it does not lie in."""
        for period in PERIODS:
            if cap_window(date, period) != cap_window(self.date, period):
                self.counted[period] = self.used[period] = 0
        self.date = date

    def first_full(self, micros: int) -> str | None:
        for period in reversed(PERIODS):
            limit = self.limits[period]
            if limit is not None and self.counted[period] + micros > limit:
                return period
        return None

    def move(self, date: str, *, counted: int, used: int) -> None:
        """In the windows that both dates lie in."""
        for period in PERIODS:
            if cap_window(date, period) == cap_window(self.date, period):
                self.counted[period] += counted
                self.used[period] += used


def count_hold(scopes: Sequence[Scope | None], micros: int, date: str, least: Sequence[int]) -> list[str] | None:
    """Count a hold in the tenant's scope and the key's, or say why it may not be: then what it moved is void."""
    for scope, known in zip_longest(scopes, least):
        if known and (scope is None or scope.revision < known):
            return ["ERR_UNAVAILABLE", "caps"]
    if not date:
        return None
    newest = max([date, *(scope.date for scope in scopes if scope is not None)])
    if newest != date:
        return ["ERR_DATE", newest]
    for who, scope in zip(("tenant", "key"), scopes):  # noqa: B905  a run may have no key
        if scope is None:
            continue
        scope.begin(date)
        if full := scope.first_full(micros):
            numbers = (scope.limits[full], scope.counted[full], scope.used[full])
            return ["ERR_CAP", who, full, *(str(number) for number in numbers), date]
        scope.move(date, counted=micros, used=0)
    return None


def is_date(text: str) -> bool:
    return text == "" or bool(_DATE.fullmatch(text))


def _is_size(text: str) -> bool:
    return bool(_SIZE.fullmatch(text)) and len(text) <= 16 and int(text) <= MAX_MICROS


def scope_in(numbers: str) -> Scope:
    """What an item of a rebuild says of a scope; Lost where it says nothing of the kind."""
    revision, date, *rest = numbers.split(" ")
    limits, counted, used = (" ".join(rest[at : at + 4]) for at in (0, 4, 8))
    scope = Scope.of({"revision": revision, "date": date, "limits": limits, "counted": counted, "used": used})
    if not all(_is_size(size) for size in [revision, *(it for it in rest[:4] if it != "-")]):
        raise Lost
    if scope is None or (date != UNDATED and not _DATE.fullmatch(date)):
        raise Lost
    return scope


def is_scope(numbers: str) -> bool:
    try:
        return numbers == "" or (len(numbers.split(" ")) == 14 and bool(scope_in(numbers)))
    except Lost:
        return False
