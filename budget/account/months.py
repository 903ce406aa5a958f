"""A month that a page is asked for, and its bounds where the tenant lives."""

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

from django.http import HttpRequest

from budget.ledger import StatementPeriod
from budget.usage import ranges
from budget.usage.ranges import FIRST_YEAR, LAST_YEAR, UsageRange
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode

_MONTH: Final = re.compile(r"([0-9]{4})-([0-9]{2})", re.ASCII)


@dataclass(frozen=True, slots=True)
class AskedMonth:
    asked: UsageRange

    @property
    def text(self) -> str:
        return f"{self.asked.start:%Y-%m}"

    def period(self) -> StatementPeriod:
        """Entries that were made in it."""
        return StatementPeriod(self.asked.instant(self.asked.start), self.asked.instant(self.asked.end))


def asked_month(request: HttpRequest, tenant_id: str) -> AskedMonth:
    """`?month=2026-11`; the running one where none is given."""
    text = request.GET.get("month", "")
    first = read_month(text) if text else None
    asked = ranges.usage_range(tenant_id, start=first, end=None if first is None else ranges.next_month(first))
    if not isinstance(asked, UsageRange):
        raise _no_month()
    return AskedMonth(asked)


def read_month(text: str) -> date:
    found = _MONTH.fullmatch(text)
    if found is None or not FIRST_YEAR <= int(found[1]) <= LAST_YEAR or not 1 <= int(found[2]) <= 12:
        raise _no_month()
    return date(int(found[1]), int(found[2]), 1)


def _no_month() -> Problem:
    return Problem(ReasonCode.VALIDATION_FAILED, "Give a month as 2026-11.")
