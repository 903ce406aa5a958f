"""The list of field reports in the docs names tests that there are."""

import re

from tests.gear.source import REPOSITORY

PAGE = "docs/workspaces_protocol.md"
HERE = "tests/integration/workspaces"


def test_each_field_report_names_tests_that_there_are() -> None:
    _, _, section = (REPOSITORY / PAGE).read_text(encoding="utf-8").partition("## Field reports\n")
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 27
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert named, row
        for path, test in named:
            source = (REPOSITORY / (path if "/" in path else f"{HERE}/{path}")).read_text(encoding="utf-8")
            assert f"\ndef {test}(" in source, (path, test)
