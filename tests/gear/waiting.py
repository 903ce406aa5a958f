"""Tests wait for what they need to see, never for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def wait_until(
    look: Callable[[], Found | None], *, seconds: float = 10.0, pause_seconds: float = 0.01, what: str = ""
) -> Found:
    """The first truthy answer of `look`; an AssertionError that says what never came about."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {seconds} s: {what or getattr(look, '__name__', 'the condition')}")
        time.sleep(pause_seconds)
