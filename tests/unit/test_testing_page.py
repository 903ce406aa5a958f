"""docs/testing.md names what there is, and all of it."""

import ast
import importlib
import re

from tests.gear.source import REPOSITORY, modules
from tests.proving.proofs import PROOFS

PAGE = REPOSITORY.joinpath("docs", "testing.md").read_text(encoding="utf-8")
TOOLS = ("tests/gear/builders", "tests/gear/faults")


def test_each_path_on_the_page_is_there() -> None:
    named = set(re.findall(r"`(tests/[\w/.]+)`", PAGE))
    assert len(named) > 30
    assert [path for path in sorted(named) if not REPOSITORY.joinpath(path).exists()] == []


def test_each_builder_and_each_fault_tool_is_on_the_page() -> None:
    tools = [str(path) for path in modules() if str(path.parent) in TOOLS and path.name != "__init__.py"]
    assert len(tools) > 20
    assert [tool for tool in tools if f"`{tool}`" not in PAGE] == []


def test_each_fixture_that_every_test_may_take_is_on_the_page() -> None:
    tree = ast.parse(REPOSITORY.joinpath("tests", "conftest.py").read_text(encoding="utf-8"))
    given = {ast.literal_eval(name) for node in tree.body if isinstance(node, ast.Assign) and _is_all(node)
             for name in node.value.elts}  # type: ignore[attr-defined]  # fmt: skip
    given |= {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.decorator_list and not node.name.startswith("_")
    }
    section = PAGE.split("## Fixtures")[1].split("\n## ")[0]
    assert given == set(re.findall(r"`(\w+)`", section))


def _is_all(node: ast.Assign) -> bool:
    return ast.unparse(node.targets[0]) == "__all__"


def test_the_first_test_imports_what_there_is() -> None:
    (sample,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    for node in ast.walk(ast.parse(sample)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            assert all(hasattr(module, name.name) for name in node.names)


def test_each_proof_is_on_the_page() -> None:
    section = PAGE.split("## What `make prove` holds")[1]
    rows = re.findall(r"^\| (\w+) \| (.+) \|$", section, re.MULTILINE)
    assert rows == [("proof", "shows"), *((proof.name, proof.shows) for proof in PROOFS)]
