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

EVENT_EDGES: Final = frozenset(
    {
        (EventStatus.PENDING, EventStatus.DISPATCHED),
        (EventStatus.PENDING, EventStatus.COMPLETED),
        (EventStatus.DISPATCHED, EventStatus.COMPLETED),
    }
)
TASK_EDGES: Final = frozenset(
    {
        (TaskStatus.PENDING, TaskStatus.IN_PROGRESS),
        (TaskStatus.PENDING, TaskStatus.COMPLETED),
        (TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED),
    }
)
ATTEMPT_EDGES: Final = frozenset(
    {
        (AttemptStatus.OPEN, AttemptStatus.RUNNING),
        (AttemptStatus.OPEN, AttemptStatus.REFUSED),
        (AttemptStatus.RUNNING, AttemptStatus.SUCCEEDED),
        (AttemptStatus.RUNNING, AttemptStatus.FAILED),
    }
)
MESSAGE_EDGES: Final = frozenset(
    {(MessageStatus.PENDING, MessageStatus.SENT), (MessageStatus.PENDING, MessageStatus.FAILED)}
)
"""From, to. Beside them a row that stays where it is may be put off, claimed or given back."""
