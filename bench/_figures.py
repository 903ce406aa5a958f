"""What a bench found: printed where it runs, and handed to `make bench`, which keeps it and writes the page from it."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

HANDED_TO: Final = "BENCH_FIGURES"
"""The file that `make bench` reads a bench's figures from, a line each."""


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    rows: int | None = None
    """How many runs stood in the tables."""
    pages: int | None = None
    """How many pages of Postgres it read."""

    @property
    def is_met(self) -> bool | None:
        """None where nothing is aimed at."""
        if self.at_least is None and self.at_most is None:
            return None
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )

    def target(self) -> str:
        if self.at_least is not None:
            return f"at least {shown(self.at_least)}"
        return "" if self.at_most is None else f"at most {shown(self.at_most)}"

    def document(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        rows = "" if self.rows is None else f" at {self.rows:,} runs"
        pages = "" if self.pages is None else f"   {self.pages:,} pages"
        missed = "" if self.is_met is not False else "   MISSED"
        aim = f"   ({self.target()})" if self.target() else ""
        return f"{self.what + rows:58s} {shown(self.value):>9s} {self.unit:6s}{pages}{aim}{missed}"


def shown(value: float) -> str:
    """As many digits as a measurement has."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def tell(
    what: str,
    value: float,
    unit: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    rows: int | None = None,
    pages: int | None = None,
) -> None:
    figure = Figure(what, round(value, 4), unit, at_least, at_most, rows, pages)
    print(figure, flush=True)
    if path := os.environ.get(HANDED_TO):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(figure.document()) + "\n")


def read(lines: str) -> list[Figure]:
    return [Figure(**json.loads(line)) for line in lines.splitlines()]
