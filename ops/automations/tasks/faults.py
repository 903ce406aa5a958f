"""What fails by a fault of the platform's own: tried again, later and later, for a day at most. Then it has failed.

An event, and a task between two attempts, count their faults; an attempt has the time of its first. A look without a
fault begins anew. From the fourth fault on, or after five minutes, an alarm says so (`alarms.py`), until it is over.
"""

from datetime import timedelta
from typing import Final

from dpp_project.outbox.policy import RetryPolicy

ERROR: Final = "error"
"""What it waits for; an attempt's reason begins with it."""
TRIES: Final = RetryPolicy(max_retries=27, delays_seconds=(30, 60, 300, 900, 3_600))
"""Over 23 h: what a release broke the next one mends, as long as a message is tried."""
TOLD_AT: Final = 4
TOLD_AFTER: Final = timedelta(minutes=5)


def fault_said(error: Exception) -> str:
    """Its class alone: what it says may hold what a stranger wrote."""
    return f"{ERROR} {type(error).__name__}"


def given_up(error: Exception) -> str:
    return f"a fault of the platform's own, for a day: {type(error).__name__}; the log has it"
