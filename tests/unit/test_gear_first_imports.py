"""Each test process imports all tests, and begins where no other does."""

import pytest

from tests.gear import first_imports
from tests.gear.first_imports import modules, turned


@pytest.mark.parametrize(
    ("process", "begins"), [(0, ["a", "b", "c", "d"]), (1, ["b", "c", "d", "a"]), (2, ["c", "d", "a", "b"])]
)
def test_each_process_begins_at_its_share_and_leaves_none_out(process: int, begins: list[str]) -> None:
    assert turned(["a", "b", "c", "d"], process=process, processes=3) == begins


def test_the_tests_of_a_folder_are_found_as_pytest_names_them(request: pytest.FixtureRequest) -> None:
    found = modules(["tests/unit"])
    assert __name__ in found
    assert request.module.__name__ == __name__, "pytest finds it imported"
    assert all(name.startswith("tests.unit.test_") for name in found)
    assert set(found) < set(modules(["tests"]))


@pytest.mark.parametrize("asked", ["tests/unit/test_gear_first_imports.py", "tests/unit/a.py::test", "ops", "/", ".."])
def test_what_is_no_folder_of_tests_is_left_to_pytest(asked: str) -> None:
    assert modules([asked]) == []


def test_the_folder_of_all_tests_is_the_repositorys() -> None:
    assert (first_imports.ROOT / "tests" / "gear" / "first_imports.py").samefile(first_imports.__file__)
