"""When recovery may act, in seconds. The specification's own numbers stand in dpp_project.constants."""

from typing import Final

ABANDONED_AFTER_SECONDS: Final = 60
"""A submit that has not held its money by then is taken for dead."""

RECONCILE_AFTER_SECONDS: Final = 300
"""A claim that has not been committed by then is taken over."""

FIRST_SEND_AGAIN_SECONDS: Final = 150
"""A message may be lost, or only slow: past the visibility timeout of 120 s it is sent again."""

SEND_AGAIN_SECONDS: Final = (300, 600, 1_200)
"""What is added after the first, second and every later time."""

TOMBSTONE_DAYS: Final = 365
"""How long an expired run still answers 410."""


def send_again_seconds(send_count: int) -> int:
    """How long to wait after a message was sent again for the `send_count`-th time (from 1)."""
    return SEND_AGAIN_SECONDS[min(send_count, len(SEND_AGAIN_SECONDS)) - 1]
