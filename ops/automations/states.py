"""What an event, a task, an attempt and a message may be, and how each may end. Pure."""

from enum import StrEnum
from typing import Final


class SourceKind(StrEnum):
    GITHUB = "GITHUB"
    JIRA = "JIRA"
    SCHEDULE = "SCHEDULE"
    HOOK = "HOOK"
    SLACK = "SLACK"


class EventStatus(StrEnum):
    PENDING = "PENDING"
    DISPATCHED = "DISPATCHED"
    COMPLETED = "COMPLETED"


class EventOutcome(StrEnum):
    """How an event ended. One that failed is completed, too, and may be emitted again by a person."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    NO_RULE = "NO_RULE"
    OWN_ACTOR = "OWN_ACTOR"
    LOOP = "LOOP"


class TaskStatus(StrEnum):
    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"


class TaskOutcome(StrEnum):
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class AttemptStatus(StrEnum):
    """One attempt is one run: OPEN before it is accepted, RUNNING until it ends. REFUSED: no run ever stood."""

    OPEN = "OPEN"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    REFUSED = "REFUSED"


class MessageStatus(StrEnum):
    PENDING = "PENDING"
    SENT = "SENT"
    FAILED = "FAILED"


class MessageChannel(StrEnum):
    SLACK = "slack"
    WEBHOOK = "webhook"


class MessageKind(StrEnum):
    RESULT = "RESULT"
    QUESTION = "QUESTION"
    ALARM = "ALARM"
    REPORT = "REPORT"


FAILED_AGAIN: Final = frozenset({EventOutcome.FAILED, EventOutcome.LOOP})
"""What a person may emit again."""
