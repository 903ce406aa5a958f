"""What an auth error may be, and what may be decided about one. Pure."""

from enum import StrEnum
from typing import Final


class AuthErrorStatus(StrEnum):
    NEW = "NEW"
    RETRY = "RETRY"
    ANALYSIS_REQUESTED = "ANALYSIS_REQUESTED"
    ANALYSIS_COMPLETED = "ANALYSIS_COMPLETED"
    PROCESSED = "PROCESSED"
    FAILED = "FAILED"
    RESOLVED = "RESOLVED"
    IGNORED = "IGNORED"


class DecisionType(StrEnum):
    RESOLVE = "RESOLVE"
    IGNORE = "IGNORE"
    RETRY = "RETRY"
    FAIL = "FAIL"
    PROCESS = "PROCESS"


TERMINAL: Final = frozenset(
    {AuthErrorStatus.PROCESSED, AuthErrorStatus.FAILED, AuthErrorStatus.RESOLVED, AuthErrorStatus.IGNORED}
)

BEFORE_DECISION: Final = (
    AuthErrorStatus.NEW,
    AuthErrorStatus.ANALYSIS_REQUESTED,
    AuthErrorStatus.RETRY,
    AuthErrorStatus.ANALYSIS_COMPLETED,
)
"""In the order they come."""

STATUS_OF: Final = {
    DecisionType.RESOLVE: AuthErrorStatus.RESOLVED,
    DecisionType.IGNORE: AuthErrorStatus.IGNORED,
    DecisionType.RETRY: AuthErrorStatus.RETRY,
    DecisionType.FAIL: AuthErrorStatus.FAILED,
    DecisionType.PROCESS: AuthErrorStatus.PROCESSED,
}

EDGES: Final = frozenset(
    {
        (AuthErrorStatus.NEW, AuthErrorStatus.ANALYSIS_REQUESTED),
        (AuthErrorStatus.ANALYSIS_REQUESTED, AuthErrorStatus.ANALYSIS_COMPLETED),
        *((AuthErrorStatus.ANALYSIS_COMPLETED, after) for after in STATUS_OF.values()),
        (AuthErrorStatus.RETRY, AuthErrorStatus.ANALYSIS_REQUESTED),
    }
)
"""From, to. Nothing leads out of the terminal four."""


class ClusterStatus(StrEnum):
    OPEN = "OPEN"
    RESOLVED = "RESOLVED"


RULES_DECIDE: Final = frozenset(DecisionType) - {DecisionType.RETRY}
"""A rule decides right after an analysis: to repeat that with the same code would only go round."""
