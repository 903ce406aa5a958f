"""Tests wait for what they need to see, never for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")
_PAUSE_SECONDS_MAX = 0.05


def wait_until(
    look: Callable[[], Found | None], *, seconds: float = 30.0, pause_seconds: float = 0.01, what: str = ""
) -> Found:
    """The first truthy answer of `look`; an AssertionError that says what never came about.

    It looks again after a twentieth of what it has waited already, `pause_seconds` at least and 50 ms unless those are
    more: who looks a hundred times a second takes the processor from what is waited for.
    """
    began = time.monotonic()
    deadline = began + seconds
    while True:
        found = look()
        if found:
            return found
        now = time.monotonic()
        if now >= deadline:
            raise AssertionError(f"not within {seconds} s: {what or getattr(look, '__name__', 'the condition')}")
        time.sleep(max(pause_seconds, min((now - began) / 20, _PAUSE_SECONDS_MAX)))
