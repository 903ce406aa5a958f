"""Each house rule over the whole repository, and each with a sample that it must refuse."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.gear import house_rules

REPOSITORY = Path(__file__).resolve().parents[2]
SKIPPED = {".venv", ".venv-devstack", ".devstack", ".git", "migrations"}
Rule = Callable[[ast.Module], Iterator[str]]


def sources(*, tests: bool | None = None) -> Iterator[Path]:
    for path in sorted(REPOSITORY.rglob("*.py")):
        relative = path.relative_to(REPOSITORY)
        if any(part in SKIPPED or part.startswith(".") for part in relative.parts):
            continue
        if tests is None or (relative.parts[0] == "tests") is tests:
            yield relative


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))


def complaints(rule: Rule, paths: Iterator[Path], *, but: frozenset[str] = frozenset()) -> list[str]:
    return [f"{path} {complaint}" for path in paths if str(path) not in but for complaint in rule(parsed(path))]


def test_only_the_clock_reads_the_wall_clock() -> None:
    assert complaints(house_rules.wall_clock_reads, sources(), but=frozenset({"dpp_project/clock.py"})) == []


def test_no_test_sleeps() -> None:
    paths = (path for path in sources(tests=True) if path.name.startswith("test_"))
    assert complaints(house_rules.sleeps, paths) == []


def test_functions_fit_on_a_page() -> None:
    assert complaints(house_rules.long_functions, sources()) == []


def test_every_test_asserts() -> None:
    assert complaints(house_rules.asserts_nothing, sources(tests=True)) == []


def test_nothing_is_swallowed_whole() -> None:
    assert complaints(house_rules.silent_excepts, sources(), but=house_rules.KEEPS_WHAT_IT_CATCHES) == []


def test_modules_stay_readable() -> None:
    long = {
        str(path)
        for path in sources()
        if len((REPOSITORY / path).read_text().splitlines()) > house_rules.MAX_MODULE_LINES
    }
    assert long == set(house_rules.LONG_MODULES)


def test_nothing_points_outside_the_repository() -> None:
    forbidden = re.compile(r"\.\./shared|(?<!\w)/(?:work|farm|home/\w+)/")
    text_files = (
        path
        for path in REPOSITORY.rglob("*")
        if path.suffix in {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".html", ".lua", ".js"}
        or path.name == "Makefile"
        if not any(part in SKIPPED or part.startswith(".venv") for part in path.relative_to(REPOSITORY).parts)
    )
    here = Path(__file__)
    assert [path for path in text_files if path != here and forbidden.search(path.read_text(encoding="utf-8"))] == []


def test_no_reference_leads_to_a_document_that_is_not_here() -> None:
    """A section sign points into a specification that is not here; a contract row or an ADR is."""
    suffixes = {".py", ".md", ".lua", ".html", ".pml", ".sh", ".toml", ".yaml"}
    paths = [path for path in REPOSITORY.rglob("*") if path.suffix in suffixes]
    ours = [path for path in paths if not SKIPPED & set(path.relative_to(REPOSITORY).parts)]
    assert [path for path in ours if "\N{SECTION SIGN}" in path.read_text(encoding="utf-8")] == []


SAMPLES: list[tuple[Rule, str, str]] = [
    (house_rules.wall_clock_reads, "clock.now()", "datetime.datetime.now()"),
    (house_rules.wall_clock_reads, "now = 1", "from django.utils import timezone\ntimezone.now()"),
    (house_rules.sleeps, "wait_until(x)", "import time\ntime.sleep(1)"),
    (house_rules.long_functions, "def f():\n    return 1", "def f():\n" + "    x = 1\n" * 71),
    (house_rules.asserts_nothing, "def test_a():\n    assert f()", "def test_a():\n    f()"),
    (house_rules.asserts_nothing, "def test_a():\n    with raises(E):\n        f()", "def test_a():\n    print(1)"),
    (
        house_rules.asserts_nothing,
        "def check(x):\n    assert x\ndef test_a():\n    check(1)",
        "def check(x):\n    return x\ndef test_a():\n    check(1)",
    ),
    (house_rules.silent_excepts, "try:\n    f()\nexcept OSError:\n    pass", "try:\n    f()\nexcept:\n    pass"),
    (
        house_rules.silent_excepts,
        "try:\n    f()\nexcept BaseException:\n    raise",
        "try:\n    f()\nexcept BaseException:\n    g()",
    ),
]


@pytest.mark.parametrize(("rule", "good", "bad"), SAMPLES)
def test_each_rule_takes_the_good_and_refuses_the_bad(rule: Rule, good: str, bad: str) -> None:
    assert list(rule(ast.parse(good))) == []
    assert len(list(rule(ast.parse(bad)))) == 1
