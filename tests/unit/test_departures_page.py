"""docs/departures.md names every departure: each row has its decision, and each † of the contract has its row."""

import re
from pathlib import Path

import pytest

from tests.proving import contract

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROW = re.compile(r"^\| (?!the specification says|-)(.+) \| (.+) \|(.*)\| \[(\d+)\]\(adr/(\S+)\) \|$", re.MULTILINE)
"""What it says, what the product does, contract rows, the decision's number and file."""
MARK = "†"


def faults(page: str, promises: dict[str, str], decisions: dict[str, str]) -> list[str]:
    """`decisions` has each ADR's text by its file name."""
    rows = ROW.findall(page)
    tables = [
        line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| the specification")
    ]
    named = {row for _, _, cell, _, _ in rows for row in re.findall(r"[A-Z]{3,4}-\d\d", cell)}
    marked = {row for row, promise in promises.items() if MARK in promise}
    cited = {file for *_, file in rows}
    return [
        *(f"a row without a decision: {line}" for line in tables if not ROW.match(line)),
        *(f"{file} is no decision {number}" for *_, number, file in rows if not is_decision(file, number, decisions)),
        *(f"{row} is marked {MARK} in the contract and has no row" for row in sorted(marked - named)),
        *(f"{row} is no row of the contract" for row in sorted(named - promises.keys())),
        *(
            f"{file} departs from the specification and has no row"
            for file, text in sorted(decisions.items())
            if "specification" in text.lower() and file not in cited
        ),
    ]


def is_decision(file: str, number: str, decisions: dict[str, str]) -> bool:
    return file.startswith(f"{int(number):04d}-") and decisions.get(file, "").startswith(f"# {number}. ")


def decisions_here() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "adr").glob("*.md")}


@pytest.mark.contract("DPP-96")
def test_dpp_96_every_departure_is_named_with_its_decision() -> None:
    page = (DOCS / "departures.md").read_text(encoding="utf-8")
    read = contract.read_page((DOCS / "contract.md").read_text(encoding="utf-8"))
    assert faults(page, read.made | read.to_come, decisions_here()) == []
    assert len(ROW.findall(page)) >= 40


DECISIONS = {"0001-one.md": "# 1. One\n\nThe specification says two.", "0002-two.md": "# 2. Two\n\nOurs alone."}
PROMISES = {"DPP-01": "differs †", "DPP-02": "does not"}
GOOD = "| two | one | DPP-01 | [1](adr/0001-one.md) |"


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        (GOOD, None),
        ("| two | one | DPP-01 | because |", "a row without a decision"),
        (GOOD.replace("0001-one", "0009-nine"), "is no decision 1"),
        (GOOD.replace("[1]", "[2]"), "is no decision 2"),
        (GOOD.replace("DPP-01", ""), "DPP-01 is marked"),
        (GOOD.replace("DPP-01", "DPP-01, DPP-77"), "DPP-77 is no row"),
        (GOOD.replace("0001-one", "0002-two").replace("[1]", "[2]"), "0001-one.md departs"),
    ],
)
def test_a_departure_without_its_decision_is_found(page: str, fault: str | None) -> None:
    found = faults(page, PROMISES, DECISIONS)
    assert found == [] if fault is None else any(fault in one for one in found)
