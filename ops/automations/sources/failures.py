"""Why a source, or a place that messages go to, did not answer as it should. Each has a sentence with its cure."""

from enum import StrEnum
from typing import Final

from ops.automations.models import AutomationSource


class AskFailureKind(StrEnum):
    UNREACHABLE = "UNREACHABLE"
    TOKEN_REFUSED = "TOKEN_REFUSED"  # noqa: S105  a name
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    GONE = "GONE"
    QUESTION_REFUSED = "QUESTION_REFUSED"
    RATE_LIMITED = "RATE_LIMITED"
    SERVER_ERROR = "SERVER_ERROR"
    GARBAGE = "GARBAGE"
    CREDENTIALS_MISSING = "CREDENTIALS_MISSING"
    FAULT = "FAULT"


CURES: Final[dict[AskFailureKind, str]] = {
    AskFailureKind.UNREACHABLE: "Its address does not answer; see whether it is right and public.",
    AskFailureKind.TOKEN_REFUSED: "It does not know the token (any more); give the source a new one.",
    AskFailureKind.FORBIDDEN: "The token is known, and may not read this; GitHub's notifications need a classic"
    " personal access token with the scope `notifications` or `repo`.",
    AskFailureKind.NOT_FOUND: "There is nothing at this address; see whether its base address is right.",
    AskFailureKind.GONE: "The service has removed this address for good.",
    AskFailureKind.QUESTION_REFUSED: "The service does not accept the question; see whether the JQL is right.",
    AskFailureKind.RATE_LIMITED: "It has been asked too often, and is asked again when it says so.",
    AskFailureKind.SERVER_ERROR: "The service has a fault of its own; it is asked again.",
    AskFailureKind.GARBAGE: "What it answered is not what this service answers; see whether its base address is right.",
    AskFailureKind.CREDENTIALS_MISSING: "Its token is not set, or cannot be decrypted; set it anew.",
    AskFailureKind.FAULT: "A fault of the platform's own; the log has it.",
}


def source_failure_told(source: AutomationSource) -> str:
    """What is wrong with a source, since when, and what to do; empty where it is well."""
    if not source.failures:
        return ""
    since = source.looked_at or source.created_at
    name, _, _detail = source.last_error.partition(" ")
    cure = CURES[AskFailureKind(name)] if name in set(AskFailureKind) else ""
    return f"{source.last_error}, not looked at since {since:%Y-%m-%d %H:%M} UTC. {cure}".strip()


class AskFailed(Exception):  # noqa: N818  an outcome of one question
    """`detail` is ours, never what was answered. `retry_after_seconds`: what the service asked for, 0 if nothing."""

    def __init__(self, kind: AskFailureKind, detail: str = "", *, retry_after_seconds: float = 0.0) -> None:
        super().__init__(f"{kind.value} {detail}".strip())
        self.kind = kind
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds
