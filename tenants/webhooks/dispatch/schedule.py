"""When a message is tried again. Pure: no clock, no chance, no settings.

Ten attempts over about 75 h, as Standard Webhooks proposes. Each waits up to a tenth more or less than its step, so
that what failed together does not come back together.
"""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

STEPS_SECONDS: Final = (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Before each attempt. The first comes at once."""
JITTER: Final = 0.1
RETRY_AFTER_SECONDS_MAX: Final = 86_400.0
"""The longest step: a receiver that asks for more may mean milliseconds."""


def seconds_until_next(attempts: int, *, chance: float, retry_after: float = 0.0) -> float | None:
    """From a failure to the next attempt, after so many; None when they were the last. `chance` lies in [0, 1)."""
    if attempts >= len(STEPS_SECONDS):
        return None
    step = STEPS_SECONDS[attempts] * (1 - JITTER + 2 * JITTER * chance)
    return max(step, retry_after)


def retry_after_seconds(said: str, *, now: datetime) -> float:
    """What a Retry-After header asks for: seconds or a date, at most a day. Zero for the past, and for neither."""
    said = said.strip()
    if said.isascii() and said.isdigit():
        asked = float(said[:12])
    else:
        try:
            at = parsedate_to_datetime(said)
        except (ValueError, TypeError, OverflowError):
            return 0.0
        asked = (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds()
    return min(max(asked, 0.0), RETRY_AFTER_SECONDS_MAX) if math.isfinite(asked) else 0.0
