"""`make contract`: each promise of docs/contract.md with the tests that show it; a promise without one fails.

A test shows a row by its name (`test_dpp_38_…`) or by `@pytest.mark.contract("DPP-38")`. Rows under "To come" are not
promised yet; one that has gained its tests must move up.
"""

import ast
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "contract.md"
_ROW = re.compile(r"^\| ([A-Z]{3,4}-\d\d) \| (.+) \|$", re.MULTILINE)
_NAME = re.compile(r"^test_([a-z]{3,4})_(\d\d)_")


@dataclass(frozen=True)
class Promises:
    made: dict[str, str]
    to_come: dict[str, str]


def read_page(text: str) -> Promises:
    made, _, to_come = text.partition("\n# To come\n")
    return Promises(dict(_ROW.findall(made)), dict(_ROW.findall(to_come)))


def tests_by_row(sources: dict[str, str]) -> dict[str, list[str]]:
    """Row id to the tests that name it, read from the source so that nothing has to run."""
    found: dict[str, list[str]] = defaultdict(list)
    for place, source in sources.items():
        tree = ast.parse(source)
        everywhere = {row for node in tree.body if _is_pytestmark(node) for row in _rows_marked(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                marked = {row for decorator in node.decorator_list for row in _rows_marked(decorator)}
                for row in marked | everywhere | _row_named(node.name):
                    found[row].append(f"{place}::{node.name}")
    return found


def _is_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"


def _rows_marked(node: ast.AST) -> set[str]:
    return {
        str(argument.value)
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.contract"
        for argument in call.args
        if isinstance(argument, ast.Constant)
    }


def _row_named(name: str) -> set[str]:
    named = _NAME.match(name)
    return {f"{named[1].upper()}-{named[2]}"} if named else set()


def faults(promises: Promises, tests: dict[str, list[str]]) -> list[str]:
    known = promises.made | promises.to_come
    return [
        *(f"{row} is promised and no test shows it" for row in promises.made if not tests.get(row)),
        *(
            f"{row} is named by {tests[row][0]} but stands nowhere in docs/contract.md"
            for row in tests
            if row not in known
        ),
        *(f"{row} stands in both parts of docs/contract.md" for row in promises.made if row in promises.to_come),
    ]


def main() -> int:
    sources = {
        str(path.relative_to(REPOSITORY)): path.read_text(encoding="utf-8")
        for path in sorted((REPOSITORY / "tests").rglob("test_*.py"))
    }
    promises, tests = read_page(PAGE.read_text(encoding="utf-8")), tests_by_row(sources)
    for row, promise in promises.made.items():
        print(f"{row}  {promise[:100]}")  # noqa: T201
        for test in tests.get(row, ["no test"]):
            print(f"        {test}")  # noqa: T201
    print(f"{len(promises.made)} promised, {len(promises.to_come)} to come")  # noqa: T201
    found = faults(promises, tests)
    for fault in found:
        print(f"contract: {fault}", file=sys.stderr)  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
