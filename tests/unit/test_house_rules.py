"""Each house rule over the whole repository, and each with a sample that it must refuse."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.gear import house_rules
from tests.gear.source import REPOSITORY, files, modules, of_product, parsed, text

Rule = Callable[[ast.Module], Iterator[str]]


def of_tests() -> Iterator[Path]:
    return (path for path in modules() if path.parts[0] == "tests")


def complaints(rule: Rule, paths: Iterable[Path], *, but: frozenset[str] = frozenset()) -> list[str]:
    return [f"{path} {complaint}" for path in paths if str(path) not in but for complaint in rule(parsed(path))]


def test_only_the_clock_reads_the_wall_clock() -> None:
    assert complaints(house_rules.wall_clock_reads, modules(), but=frozenset({"dpp_project/clock.py"})) == []


def test_no_test_sleeps() -> None:
    paths = (path for path in of_tests() if path.name.startswith("test_"))
    assert complaints(house_rules.sleeps, paths) == []


def test_functions_fit_on_a_page() -> None:
    assert complaints(house_rules.long_functions, modules()) == []


def test_every_test_asserts() -> None:
    assert complaints(house_rules.asserts_nothing, of_tests()) == []


def test_nothing_is_swallowed_whole() -> None:
    assert complaints(house_rules.silent_excepts, modules(), but=house_rules.KEEPS_WHAT_IT_CATCHES) == []


def test_no_log_call_fails() -> None:
    assert complaints(house_rules.log_calls_that_fail, of_product()) == []


def test_modules_stay_readable() -> None:
    long = {str(path) for path in modules() if len(text(path).splitlines()) > house_rules.MAX_MODULE_LINES}
    assert long == set(house_rules.LONG_MODULES)


def test_a_folder_shows_what_it_is_made_of() -> None:
    assert list(house_rules.crowded_folders(of_product())) == []


def test_a_folder_of_too_many_modules_is_found() -> None:
    fits = [Path("app", f"m{number}.py") for number in range(house_rules.MAX_FOLDER_MODULES)]
    assert list(house_rules.crowded_folders([*fits, Path("app/inner/one.py")])) == []
    assert list(house_rules.crowded_folders([*fits, Path("app/one.py")])) == [
        "app holds 27 modules; cut it along its seams"
    ]


def test_a_module_is_named_for_what_it_holds() -> None:
    assert list(house_rules.modules_that_say_nothing(modules())) == []


def test_a_module_whose_name_says_nothing_is_found() -> None:
    good = [Path("app/utility_bills.py"), Path("app/commons_of_a_village.py"), Path("app/helped.py")]
    bad = [Path("app/common/one.py"), Path("app/utils.py"), Path("app/redis_helpers.py")]
    assert list(house_rules.modules_that_say_nothing([*good, *bad])) == [
        "app/common/one.py: common says nothing of what it holds",
        "app/utils.py: utils says nothing of what it holds",
        "app/redis_helpers.py: redis_helpers says nothing of what it holds",
    ]


def test_nothing_points_outside_the_repository() -> None:
    forbidden = re.compile(r"\.\./shared|(?<!\w)/(?:work|farm|home/\w+)/")
    kinds = {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".html", ".lua", ".js"}
    read = [path for path in files() if path.suffix in kinds or path.name == "Makefile"]
    here = Path(__file__).relative_to(REPOSITORY)
    assert {"README.md", "Makefile", "pyproject.toml"} <= {str(path) for path in read}
    assert [path for path in read if path != here and forbidden.search(text(path))] == []


def test_no_reference_leads_to_a_document_that_is_not_here() -> None:
    """A section sign points into a specification that is not here; a contract row or an ADR is."""
    kinds = {".py", ".md", ".lua", ".html", ".pml", ".sh", ".toml", ".yaml"}
    assert [path for path in files() if path.suffix in kinds and "\N{SECTION SIGN}" in text(path)] == []


def test_a_class_name_has_one_meaning() -> None:
    product = {str(path): parsed(path) for path in of_product()}
    assert list(house_rules.class_names_with_two_meanings(product)) == []


def test_a_class_name_with_two_meanings_is_found() -> None:
    ours = ast.parse("class Answer:\n    pass\nA = TypeVar('A')\nclass _Part:\n    pass\nclass Command:\n    pass")
    theirs = ast.parse(
        "class Question:\n    class Answer:\n        pass\nclass _Part:\n    pass\nclass Command:\n    pass"
    )
    assert list(house_rules.class_names_with_two_meanings({"a.py": ours, "b.py": theirs})) == []
    alias = ast.parse("Answer = Done | Failed")
    assert list(house_rules.class_names_with_two_meanings({"a.py": ours, "b.py": theirs, "c.py": alias})) == [
        "Answer is a class in a.py and c.py; rename all but one"
    ]


def test_a_function_name_leads_to_its_module() -> None:
    clients = (path for path in modules() if path.parts[0] == "clients")
    product = {str(path): parsed(path) for path in (*of_product(), *clients)}
    assert any(path.startswith("clients/") for path in product)
    assert list(house_rules.function_names_in_many_places(product)) == []


def test_a_function_name_in_many_places_is_found() -> None:
    one = ast.parse("def read():\n    pass\ndef _text():\n    pass\nclass A:\n    def shown(self):\n        pass")
    other = ast.parse("async def read():\n    pass\ndef _text():\n    pass\ndef main():\n    pass")
    rule = partial(house_rules.function_names_in_many_places, shared={})
    assert list(rule({"a.py": one, "b.py": one})) == []
    assert list(rule({"a.py": one, "b.py": one, "c.py": other})) == [
        f"{name} is a function in a.py and b.py and c.py; say of each what it does to what"
        for name in ("_text", "read")
    ]
    assert list(rule({"a.py": one, "b.py": one, "c.py": other}, shared=dict.fromkeys(["_text", "read"], "why"))) == []
    assert list(rule({"a.py": other, "b.py": one}, shared={"read": "a reason"})) == [
        "read is listed, and stands in no more modules than any other may; take it off the list"
    ]


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
    (house_rules.log_calls_that_fail, 'log.info("x", event_id=1)', 'log.exception("x", event=1)'),
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
