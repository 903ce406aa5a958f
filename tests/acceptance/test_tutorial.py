"""docs/quickstart.md and docs/tutorial.md, word by word at a live platform, as a newcomer types them (DPP-71)."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dpp_project.devstack.programs import REPOSITORY
from tests.acceptance.test_devstack_stack import Stack, stack
from tests.proving import proofs

__all__ = ["stack"]

PAGES = ("quickstart.md", "tutorial.md")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
END = "--- end of block"
ALSO_THERE = ("manage.py", ".venv")
"""What the pages name in the folder of the repository; the test works in one of its own, which has these of it."""


class Step(NamedTuple):
    page: str
    typed: str
    shown: str
    """What the page says that it prints; empty where it says nothing."""


def steps() -> Iterator[Step]:
    for page in PAGES:
        blocks = BLOCK.findall((REPOSITORY / "docs" / page).read_text(encoding="utf-8"))
        for index, (kind, text) in enumerate(blocks):
            if kind == "sh":
                follows = blocks[index + 1] if index + 1 < len(blocks) else ("sh", "")
                yield Step(page, text, follows[1] if follows[0] == "" else "")


def make_as_it_is(state: Path) -> str:
    """`make demo`, `make up` and `make down` as the Makefile has them, for a state of ours; the tools are there."""
    return f'make() {{ (cd {REPOSITORY} && {sys.executable} -m dpp_project.devstack "$1" --state {state}); }}\n'


def test_the_makefile_does_what_the_tutorials_make_does() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert all(f"$(DEVSTACK) {command}" in makefile for command in ("demo", "up", "down"))
    assert "DEVSTACK := $(PY) -m dpp_project.devstack" in makefile


def test_the_pages_have_steps_and_say_what_they_print() -> None:
    found = list(steps())
    assert len(found) >= 12
    assert len([step for step in found if step.shown]) >= 6


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.contract("DPP-71")
def test_dpp_71_the_quickstart_and_the_tutorial_do_what_they_say(stack: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    for name in ALSO_THERE:
        (folder / name).symlink_to(REPOSITORY / name)
    (folder / ".devstack").symlink_to(stack.folder.root)
    todo = list(steps())
    script = "set -e\n" + make_as_it_is(stack.folder.root) + "".join(f"{step.typed}\necho '{END}'\n" for step in todo)
    done = subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=folder,
        env=stack.environ | {"no_proxy": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    printed = done.stdout.split(f"{END}\n")
    for step, said in zip(todo, printed, strict=False):
        assert_shown(step, said, done.stderr)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    assert len(printed) == len(todo) + 1
    proofs.report(cases=len(todo))


def assert_shown(step: Step, said: str, errors: str) -> None:
    """Line by line; a line `…` stands for whatever follows."""
    for wanted, line in zip(step.shown.splitlines(), said.splitlines() + [""] * 99, strict=False):
        if wanted == "…":
            return
        assert line == wanted, f"{step.page}:\n{step.typed}\nprinted\n{said}\nnot\n{step.shown}\n{errors[-1_500:]}"
