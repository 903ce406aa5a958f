"""Patterns over texts from outside, by RE2: a search takes time linear in the text, and no text makes it backtrack.

They work on UTF-8 bytes: over str the library counts characters at each match.
"""

from collections.abc import Iterable
from typing import Any

import re2


def linear_pattern(pattern: str) -> Any:
    """Compiled; a pattern that RE2 refuses is a fault of this release, and stops its start."""
    return re2.compile(pattern.encode(), _options())


def any_of(patterns: Iterable[bytes]) -> Any:
    """Says whether one of them is anywhere, in one pass and without a word on where: most texts have none."""
    options = _options()
    options.never_capture = True
    return re2.compile(b"|".join(b"(?:" + pattern + b")" for pattern in patterns), options)


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options
