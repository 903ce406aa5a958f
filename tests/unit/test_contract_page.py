"""The check behind `make contract` can fail, and the page it reads is whole."""

from tests.proving import contract

PAGE = """
| DPP-01 | first |
| DPP-02 | second |

# To come

| DPP-03 | third |
"""
SHOWS_BY_NAME = "def test_dpp_01_it_works():\n    assert True\n"
SHOWS_BY_MODULE = "pytestmark = [a, pytest.mark.contract('DPP-02')]\ndef test_x():\n    assert True\n"
SHOWS_BY_MARK = "@pytest.mark.contract('DPP-02', 'DPP-03')\ndef test_it():\n    assert True\n"


def test_a_row_is_shown_by_a_name_or_by_a_mark() -> None:
    tests = contract.tests_by_row({"tests/a.py": SHOWS_BY_NAME, "tests/b.py": SHOWS_BY_MARK})
    assert tests == {
        "DPP-01": ["tests/a.py::test_dpp_01_it_works"],
        "DPP-02": ["tests/b.py::test_it"],
        "DPP-03": ["tests/b.py::test_it"],
    }
    assert contract.faults(contract.read_page(PAGE), tests) == []


def test_a_row_is_shown_by_a_mark_of_the_whole_module() -> None:
    assert contract.tests_by_row({"tests/c.py": SHOWS_BY_MODULE}) == {"DPP-02": ["tests/c.py::test_x"]}


def test_a_promise_without_a_test_and_a_test_without_a_promise_are_faults() -> None:
    tests = contract.tests_by_row({"tests/a.py": SHOWS_BY_NAME + SHOWS_BY_NAME.replace("01", "99")})
    assert contract.faults(contract.read_page(PAGE), tests) == [
        "DPP-02 is promised and no test shows it",
        "DPP-99 is named by tests/a.py::test_dpp_99_it_works but stands nowhere in docs/contract.md",
    ]


def test_every_promise_is_shown() -> None:
    sources = {
        str(path): path.read_text(encoding="utf-8") for path in (contract.REPOSITORY / "tests").rglob("test_*.py")
    }
    promises = contract.read_page(contract.PAGE.read_text(encoding="utf-8"))
    assert contract.faults(promises, contract.tests_by_row(sources)) == []


def test_the_page_carries_every_row_once() -> None:
    promises = contract.read_page(contract.PAGE.read_text(encoding="utf-8"))
    assert not set(promises.made) & set(promises.to_come)
    assert len(promises.made) + len(promises.to_come) >= 153
    assert len(promises.made) + len(promises.to_come) >= 167, "a row that was promised is gone"
