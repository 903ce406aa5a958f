"""The frames of a report as they are stored: what each version of the normaliser reads, and nothing else."""

from typing import Final, TypedDict

EXCEPTIONS_MAX: Final = 8
FRAMES_MAX: Final = 30
"""Of one exception."""
NAME_LENGTH_MAX: Final = 200
"""Of a class, a module, a function or a file."""

CAUSE: Final = "cause"
SUPPRESSED: Final = "suppressed"
MEMBER: Final = "member"

JAVA: Final = "java"
PYTHON: Final = "python"
JAVASCRIPT: Final = "javascript"
GO: Final = "go"
UNKNOWN: Final = "unknown"


class TracedFrame(TypedDict):
    """As the text has it, without line numbers; empty where the language has no such thing."""

    module: str
    function: str
    file: str


class TracedException(TypedDict):
    exception_class: str
    relation: str
    """CAUSE: of the chain from the root to what was reported. SUPPRESSED: beside it. MEMBER: one of a group's."""
    frames: list[TracedFrame]
    """The innermost first."""


class Trace(TypedDict):
    """JSON as it stands in the database; a later version of the normaliser reads what an earlier release wrote."""

    language: str
    exceptions: list[TracedException]
    """The root cause first."""
