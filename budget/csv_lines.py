"""CSV as text, line by line, safe to be opened in a spreadsheet. Pure."""

import csv
from collections.abc import Iterable
from typing import Final

# A spreadsheet takes a cell that begins with one of these for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def line(cells: Iterable[object]) -> str:
    """One line with its end; None is an empty cell."""
    return str(csv.writer(_Line()).writerow(cells))  # what `write` answered


def harmless(value: str) -> str:
    """What others wrote, as text also to a spreadsheet."""
    return f"'{value}" if value.startswith(_FORMULA) else value


class _Line:
    """What csv writes to: it hands each line back."""

    def write(self, text: str) -> str:
        return text
