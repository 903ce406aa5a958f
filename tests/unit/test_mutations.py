"""The planted faults still have their places, and no two are the same."""

import ast
from pathlib import Path

import pytest

from tests.gear.mutations import MUTANTS, Mutant

REPOSITORY = Path(__file__).resolve().parents[2]
LEAST = 30


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    assert len(MUTANTS) >= LEAST
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.file, mutant.before, mutant.after) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_fault_can_be_planted(mutant: Mutant) -> None:
    source = (REPOSITORY / mutant.file).read_text(encoding="utf-8")
    changed = mutant.applied(source)
    assert changed != source
    if mutant.file.endswith(".py"):
        ast.parse(changed)
    assert all((REPOSITORY / test).exists() for test in mutant.tests)
