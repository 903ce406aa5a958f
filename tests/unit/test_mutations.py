"""The planted faults still have their places, their tests still stand, and no two are the same."""

import ast
from functools import cache
from pathlib import Path

from tests.proving import mutants
from tests.proving.mutants import MUTANTS
from tests.proving.mutants.mutant import Mutant

REPOSITORY = Path(__file__).resolve().parents[2]
LEAST = 30
APPS = ("tenants", "budget", "runs", "reaper", "ops")


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    assert len(MUTANTS) >= LEAST
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.file, mutant.before, mutant.after) for mutant in MUTANTS}) == len(MUTANTS)


def test_none_is_left_out() -> None:
    folder = Path(mutants.__file__).parent
    listed = {path.stem for path in folder.glob("of_*.py")}
    assert {name for name in vars(mutants) if name.startswith("of_")} == listed
    assert len(MUTANTS) == sum(len(getattr(mutants, name).MUTANTS) for name in listed)


def test_every_script_has_its_faults() -> None:
    scripts = {str(path.relative_to(REPOSITORY)) for app in APPS for path in (REPOSITORY / app).rglob("lua/*.lua")}
    assert scripts == {mutant.file for mutant in MUTANTS if mutant.file.endswith(".lua")}


def test_each_fault_can_be_planted() -> None:
    """All in one test: reading a file takes less than a test of its own would."""
    assert [fault for mutant in MUTANTS if (fault := why_not_planted(mutant)) is not None] == []


def why_not_planted(mutant: Mutant) -> str | None:
    source = text_of(mutant.file)
    try:
        changed = mutant.applied(source)
        if mutant.file.endswith(".py"):
            ast.parse(changed)
    except SyntaxError as error:
        return f"{mutant.name}: {error}"
    except ValueError as error:
        return str(error)
    if changed == source:
        return f"{mutant.name}: changes nothing"
    if not mutant.tests:
        return f"{mutant.name}: no test is named"
    for node in mutant.tests:
        file, _, test = node.partition("::")
        if test.partition("[")[0] not in names_in(file):
            return f"{mutant.name}: there is no {node}"
    return None


def test_a_fault_that_cannot_be_planted_is_named() -> None:
    source = text_of("budget/money.py")
    line = next(line for line in source.splitlines() if source.count(line) == 1 and line.startswith("def "))
    there = "tests/unit/test_mutations.py::test_each_fault_can_be_planted"
    for before, after, test, why in (
        ("no such text", "", there, "gone: its place stands 0 times in budget/money.py"),
        (line, line, there, "gone: changes nothing"),
        (line, "def (", there, "gone: "),
        (line, f"{line} ", there + "_not", f"gone: there is no {there}_not"),
    ):
        assert str(why_not_planted(Mutant("gone", "budget/money.py", before, after, (test,)))).startswith(why)
    assert why_not_planted(Mutant("gone", "budget/money.py", line, f"{line} ", ())) == "gone: no test is named"
    assert why_not_planted(Mutant("there", "budget/money.py", line, f"{line} ", (there,))) is None


@cache
def text_of(file: str) -> str:
    return (REPOSITORY / file).read_text(encoding="utf-8")


@cache
def names_in(file: str) -> set[str]:
    module = ast.parse(text_of(file))
    return {one.name for one in module.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")}
