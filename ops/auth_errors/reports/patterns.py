"""Patterns over texts from outside, by RE2: a search takes time linear in the text, and no text makes it backtrack.

They work on UTF-8 bytes: over str the library counts characters at each match.
"""

from typing import Any

import re2


def linear(pattern: str) -> Any:
    """Compiled; a pattern that RE2 refuses is a fault of this release, and stops its start."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern.encode(), options)
