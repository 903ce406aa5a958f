"""The pages name files, headings, modules and tests that exist."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tests.gear import source

ROOT = Path(__file__).resolve().parents[2]
PAGES = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"\[[^\]]+\]\((?!https?:|mailto:)([^)#]*)(?:#([^)]+))?\)")
NAMED = re.compile(r"`((?:dpp_project|tenants|budget|runs|reaper|ops|models|tests|bench|docs|templates)/[\w./-]+)`")
"""A path in code type; one that ends with a slash is a folder."""


def heading_ids(text: str) -> set[str]:
    """As GitHub makes them: lower case, words joined by hyphens, punctuation dropped."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def faults(page: Path, text: str) -> Iterator[str]:
    for link, anchor in LINK.findall(text):
        target = (page.parent / link).resolve() if link else page
        if not target.exists():
            yield f"{page.name}: {link} does not exist"
        elif anchor and target.suffix == ".md" and anchor not in heading_ids(target.read_text(encoding="utf-8")):
            yield f"{page.name}: {link} has no heading {anchor}"
    for named in NAMED.findall(text):
        if not (ROOT / named).exists():
            yield f"{page.name}: {named} does not exist"


def test_every_file_and_heading_that_a_page_names_exists() -> None:
    assert [fault for page in PAGES for fault in faults(page, page.read_text(encoding="utf-8"))] == []


TEST = re.compile(r"\btest_[a-z0-9_]+\*?")
"""A module, several with a star, or a function."""


def absent_tests(text: str) -> Iterator[str]:
    ours = [path for path in source.modules() if path.parts[0] == "tests"]
    functions = {name for path in ours for name in re.findall(r"def (test_\w+)", source.text(path))}
    known = {path.stem for path in ours} | functions
    for named in sorted(set(TEST.findall(text))):
        if named not in known and not any(fnmatchcase(name, named) for name in known):
            yield named


def test_every_test_that_a_page_names_exists() -> None:
    """A crash window whose test was renamed says that something is shown which nobody finds."""
    said = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
    gone = {page: missing for page, text in said.items() if (missing := list(absent_tests(text)))}
    assert set(gone) == {"docs/testing.md"}  # its sample
    assert len(TEST.findall(said["docs/concurrency.md"])) > 100
    wrong = "test_docs_links, test_docs_*, test_every_table_has_its_head, test_of_none, test_of_none_*"
    assert list(absent_tests(wrong)) == ["test_of_none", "test_of_none_*"]


def cut_tables(text: str) -> Iterator[str]:
    """Rows without a head above them, which a reader sees as bars and words: a blank line inside a table does that."""
    for block in re.split(r"\n(?!\|)", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        if rows and not (len(rows) > 1 and re.fullmatch(r"[|:\- ]+", rows[1])):
            yield rows[0]


def test_every_table_has_its_head() -> None:
    whole = "words\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert (list(cut_tables(whole)), list(cut_tables(whole + "\n| 3 | 4 |\n"))) == ([], ["| 3 | 4 |"])
    assert {page.name: cut for page in PAGES if (cut := list(cut_tables(page.read_text(encoding="utf-8"))))} == {}


def test_each_decision_has_a_number_of_its_own() -> None:
    numbers = sorted(path.name[:4] for path in (ROOT / "docs" / "adr").glob("*.md"))
    assert len(set(numbers)) == len(numbers)


def test_a_name_of_nothing_is_found() -> None:
    page = ROOT / "README.md"
    assert list(faults(page, "[a](docs/api.md) [b](docs/money.md#the-scripts) `runs/states.py` `runs/packs/`")) == []
    assert list(faults(page, "[a](docs/not_there.md)")) == ["README.md: docs/not_there.md does not exist"]
    assert list(faults(page, "[a](docs/api.md#not-there)")) == ["README.md: docs/api.md has no heading not-there"]
    assert list(faults(page, "`runs/not_there.py`")) == ["README.md: runs/not_there.py does not exist"]
