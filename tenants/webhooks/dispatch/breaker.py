"""What an attempt says about its endpoint: whether to pause it, and when to give it up. Pure: `now` is an argument.

    five failures in a row    paused for 30 s, doubling with each further one to 1 h; then one attempt at a time
    429, 502, 504             pauses from the first on; Retry-After, with any failure, pauses for as long as it asks
    failing for five days     DISABLED, if it failed again twelve hours or more after the first failure
    410                       DISABLED at once
    a success                 forgets the failures
    2 s or more for an answer, or for none    slow, until it has been quick for five minutes

A pause does not end by the success of an attempt that was under way when it began.
"""

import enum
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

FAILURES_IN_A_ROW: Final = 5
PAUSE_FIRST: Final = timedelta(seconds=30)
PAUSE_MAX: Final = timedelta(hours=1)
GIVEN_UP_AFTER: Final = timedelta(days=5)
FAILED_AGAIN_AFTER: Final = timedelta(hours=12)
SLOW_MS: Final = 2_000
SLOW_FOR: Final = timedelta(minutes=5)
"""An endpoint that took long is slow until it has been quick for so long. One quick answer is cheap: with it alone an
endpoint could hang with all its room again and again, and a few tenants with all of everybody's."""
GONE: Final = 410
SLOW_DOWN: Final = frozenset({429, 502, 504})
_DOUBLINGS_MAX: Final = 16


class GivenUp(enum.StrEnum):
    """Why an endpoint was disabled, as its owner reads it."""

    GONE = "it answered 410 Gone"
    FAILING = "it has failed for five days"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How an endpoint has behaved; the columns of its row."""

    consecutive_failures: int = 0
    failing_since: datetime | None = None
    failed_again_at: datetime | None = None
    paused_until: datetime | None = None
    last_success_at: datetime | None = None
    slow_at: datetime | None = None


def after_success(before: Health, *, now: datetime, ms: int) -> Health:
    still_paused = before.paused_until is not None and before.paused_until > now
    slow_at = _slow_at(before, now=now, ms=ms)
    return Health(
        paused_until=before.paused_until if still_paused else None,
        last_success_at=now,
        slow_at=None if slow_at is None or now - slow_at >= SLOW_FOR else slow_at,
    )


def _slow_at(before: Health, *, now: datetime, ms: int) -> datetime | None:
    return now if ms > SLOW_MS else before.slow_at


def after_failure(before: Health, *, now: datetime, status_code: int | None, retry_after: float, ms: int) -> Health:
    since = before.failing_since or now
    failed = replace(
        before,
        consecutive_failures=before.consecutive_failures + 1,
        failing_since=since,
        slow_at=_slow_at(before, now=now, ms=ms),
    )
    if failed.failed_again_at is None and now - since >= FAILED_AGAIN_AFTER:
        failed = replace(failed, failed_again_at=now)
    pause = max(_pause(failed.consecutive_failures, status_code), timedelta(seconds=retry_after))
    if not pause:
        return failed
    until = now + min(pause, PAUSE_MAX)
    return replace(failed, paused_until=max(until, failed.paused_until or until))


def _pause(failures: int, status_code: int | None) -> timedelta:
    tolerated = 0 if status_code in SLOW_DOWN else FAILURES_IN_A_ROW - 1
    over = failures - tolerated
    return min(PAUSE_FIRST * 2 ** min(over - 1, _DOUBLINGS_MAX), PAUSE_MAX) if over > 0 else timedelta()


def given_up(before: Health, *, now: datetime, status_code: int | None) -> GivenUp | None:
    """Whether this failure is the last one, seen from what was before it.

    Five days alone are not enough: an endpoint that is asked twice in a week has not failed for all of it.
    """
    if status_code == GONE:
        return GivenUp.GONE
    if before.failing_since is None or before.failed_again_at is None:
        return None
    return GivenUp.FAILING if now - before.failing_since >= GIVEN_UP_AFTER else None
