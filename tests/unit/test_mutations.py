"""The planted faults still have their places, their tests still stand, and no two are the same."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.proving.mutants import MUTANTS
from tests.proving.mutants.mutant import Mutant

REPOSITORY = Path(__file__).resolve().parents[2]
LEAST = 30
APPS = ("tenants", "budget", "runs", "reaper", "ops")


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    assert len(MUTANTS) >= LEAST
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.file, mutant.before, mutant.after) for mutant in MUTANTS}) == len(MUTANTS)


def test_every_script_has_its_faults() -> None:
    scripts = {str(path.relative_to(REPOSITORY)) for app in APPS for path in (REPOSITORY / app).rglob("lua/*.lua")}
    assert scripts == {mutant.file for mutant in MUTANTS if mutant.file.endswith(".lua")}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_fault_can_be_planted(mutant: Mutant) -> None:
    source = (REPOSITORY / mutant.file).read_text(encoding="utf-8")
    changed = mutant.applied(source)
    assert changed != source
    if mutant.file.endswith(".py"):
        ast.parse(changed)
    assert mutant.tests
    for node in mutant.tests:
        file, _, test = node.partition("::")
        assert test.partition("[")[0] in names_in(file), node


@cache
def names_in(file: str) -> set[str]:
    module = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))
    return {one.name for one in module.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")}
