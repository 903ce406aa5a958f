"""Docstrings, comments and pages name who acts, in standard words."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
APPS = ("dpp_project", "tenants", "budget", "runs", "reaper", "ops", "bench")
PAGES = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
RIDDLE = re.compile(r"\b(?:whoever|whomever|anybody|somebody|nobody need|(?:is|are|was|were) told)\b", re.IGNORECASE)
"""The first words leave open which part acts; "is told" hides who logs, returns or reports it."""
QUOTES_TEXT = frozenset({"docs/packs/url.md"})
"""Shows a page that the url pack read."""


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Each docstring and comment with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def riddles(source: str) -> list[str]:
    return [f"line {line}: {found[0]}" for line, text in prose(source) for found in RIDDLE.finditer(text)]


def test_docstrings_and_comments_name_the_agent() -> None:
    modules = [path for app in APPS for path in (ROOT / app).rglob("*.py") if "migrations" not in path.parts]
    found = {str(path.relative_to(ROOT)): riddles(path.read_text(encoding="utf-8")) for path in modules}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_pages_name_the_agent() -> None:
    texts = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
    found = {page: RIDDLE.findall(text) for page, text in texts.items() if page not in QUOTES_TEXT}
    assert {page: words for page, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('def f() -> None:\n    """The reconciler finishes it."""\n', []),
        ('def f() -> None:\n    """Whoever comes next finishes it."""\n', ["line 2: Whoever"]),
        ("x = 1  # the tenant is told later\n", ["line 1: is told"]),
        ('x = "whoever reads this"\n', []),
    ],
)
def test_a_riddle_is_found_in_prose_alone(source: str, found: list[str]) -> None:
    assert riddles(source) == found
