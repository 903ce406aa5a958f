"""Of several test processes each imports the tests from another place on, so that each file is compiled by one of them.

pytest rewrites the assertions of a test file when it is first imported, which takes ten seconds for all of them, and
keeps the result. Without this, on a clean clone, all processes import the same files at the same time, and each
rewrites each.
"""

import contextlib
import importlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def turned(names: Sequence[str], *, process: int, processes: int) -> list[str]:
    """All of them, beginning at this process's share."""
    start = len(names) * process // processes
    return [*names[start:], *names[:start]]


def modules(arguments: Sequence[str]) -> list[str]:
    """The tests below the folders that pytest was asked for. A single file is imported as ever."""
    found = {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for argument in arguments
        if (folder := (ROOT / argument).resolve()).is_dir() and folder.is_relative_to(ROOT / "tests")
        for path in folder.rglob("test_*.py")
    }
    return sorted(found)


class Plugin:
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_collection(self, session: pytest.Session) -> Iterator[None]:
        process = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        processes = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        for name in turned(modules(session.config.args), process=process, processes=processes):
            with contextlib.suppress(Exception):  # the collection imports it again, and says what is wrong
                importlib.import_module(name)
        return (yield)
