"""Children that a test makes die in native code: without faulthandler, whose dump looks like a crash of the suite."""

import faulthandler
import os
from collections.abc import Iterator

import pytest

_expected = False


def _in_child() -> None:
    if _expected:
        faulthandler.disable()


os.register_at_fork(after_in_child=_in_child)


@pytest.fixture
def children_die() -> Iterator[None]:
    """For the length of a test. This process itself goes on reporting what crashes it."""
    global _expected  # noqa: PLW0603  what is forked meanwhile reads it
    _expected = True
    yield
    _expected = False
