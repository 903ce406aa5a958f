"""A scope of caps in plain Python, written from the scripts' headers: its limits and counters, and what moves them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from budget.money import MAX_MICROS
from budget.redis.windows import PERIODS, UNDATED, window

_COUNTER: Final = re.compile(r"(?=.{1,18}$)(0|-?[1-9][0-9]*)", re.ASCII)
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
        wanted = {f"{period}_{what}" for period in PERIODS for what in ("counted", "used")} | {"revision"}
        limits = {f"{period}_limit" for period in PERIODS}
        if not fields.keys() & (wanted | limits | {"date"}):
            return None
        numbers = [text for name, text in fields.items() if name in wanted | limits]
        if not wanted <= fields.keys() or not all(_COUNTER.fullmatch(text) for text in numbers):
            raise Lost
        date = fields.get("date", "")
        if date != UNDATED and not _DATE.fullmatch(date):
            raise Lost
        return cls(
            int(fields["revision"]),
            date,
            {it: int(fields[f"{it}_limit"]) if f"{it}_limit" in fields else None for it in PERIODS},
            {it: int(fields[f"{it}_counted"]) for it in PERIODS},
            {it: int(fields[f"{it}_used"]) for it in PERIODS},
        )

    def fields(self) -> dict[str, str]:
        limits = {f"{it}_limit": str(limit) for it, limit in self.limits.items() if limit is not None}
        counted = {f"{it}_counted": str(micros) for it, micros in self.counted.items()}
        used = {f"{it}_used": str(micros) for it, micros in self.used.items()}
        return {"revision": str(self.revision), "date": self.date, **limits, **counted, **used}

    def begin(self, date: str) -> None:
        """A later date ends the windows it does not lie in."""
        for period in PERIODS:
            if window(date, period) != window(self.date, period):
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
            if window(date, period) == window(self.date, period):
                self.counted[period] += counted
                self.used[period] += used


def count_hold(scopes: Sequence[Scope | None], micros: int, date: str, least: Sequence[int]) -> list[str] | None:
    """Count a hold in the tenant's scope and the key's, or say why it may not be: then what it moved is void."""
    for scope, known in zip(scopes, least):  # noqa: B905  a run may have no key
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
    return bool(_COUNTER.fullmatch(text)) and 0 <= int(text) <= MAX_MICROS


def scope_in(numbers: str) -> Scope:
    """What an item of a rebuild says of a scope; Lost where it says nothing of the kind."""
    revision, date, *rest = numbers.split(" ")
    if len(rest) != 12:
        raise Lost
    limits, counted, used = rest[::3], rest[1::3], rest[2::3]
    if not all(limit == "-" or _is_size(limit) for limit in limits):
        raise Lost
    if not _is_size(revision):
        raise Lost
    fields = {f"{it}_limit": limit for it, limit in zip(PERIODS, limits, strict=True) if limit != "-"}
    fields |= {f"{it}_counted": micros for it, micros in zip(PERIODS, counted, strict=True)}
    fields |= {f"{it}_used": micros for it, micros in zip(PERIODS, used, strict=True)}
    scope = Scope.of({"revision": revision, "date": date, **fields})
    assert scope is not None
    return scope


def is_scope(numbers: str) -> bool:
    try:
        return numbers == "" or (len(numbers.split(" ")) == 14 and bool(scope_in(numbers)))
    except Lost:
        return False
