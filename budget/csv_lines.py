"""CSV as text, line by line, safe to be opened in a spreadsheet. Pure."""

import csv
import re
from collections.abc import Iterable
from typing import Final

# A spreadsheet takes a cell that begins with one of these for a formula, spaces before it or not, some also in full
# width; and where the list separator is a semicolon, it begins a cell behind each.
_FORMULA: Final = re.compile(r"(^|;)(?=\s*[=+\-@\t\r\n\uFF1D\uFF0B\uFF0D\uFF20])")


def csv_line(cells: Iterable[object]) -> str:
    """One line with its end; None is an empty cell."""
    return str(csv.writer(_Line()).writerow(cells))  # what `write` answered


def harmless_csv_cell(value: str) -> str:
    """What others wrote, as text also to a spreadsheet."""
    return _FORMULA.sub(r"\1'", value)


class _Line:
    """What csv writes to: it hands each line back."""

    def write(self, text: str) -> str:
        return text
