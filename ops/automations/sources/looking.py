"""What a look at a source brings back, and what it may ask while it looks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from ops.automations.sources.failures import AskFailed, AskFailureKind

TEXT_LENGTH_MAX: Final = 32_768
"""Of one text in an event, such as a comment's body. A longer one is cut."""
NAME_LENGTH_MAX: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEvent:
    """The same happening has the same id, however often it is found. `thread` is what it belongs to at its source."""

    event_id: str
    payload: Mapping[str, Any]
    thread: str
    actor: str
    occurred_at: datetime
    is_own: bool = False
    """Our own doing: it is written down as seen, and starts nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """`state` is all that the next look must know; it is kept in the transaction that keeps the events."""

    events: Sequence[FoundEvent]
    state: Mapping[str, Any]
    next_look_seconds: float
    not_before: datetime | None = None
    """Until then the service does not want to be asked, by a person's wish either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutLook:
    """One look: what is known, and the only question it may put to the database."""

    settings: Mapping[str, Any]
    state: Mapping[str, Any]
    made_at: datetime
    """When the source was made."""
    oldest: datetime
    """What is older is none of its events: the source was made later, or that it was seen may be forgotten."""
    now: datetime
    unseen: Callable[[Sequence[str]], set[str]] = field(repr=False)
    """Those of these ids that were not seen yet."""


def moment_of_service(text: object) -> datetime:
    """A service's own way to write one. Raises AskFailed(GARBAGE)."""
    try:
        read = datetime.fromisoformat(str(text))
    except ValueError:
        raise AskFailed(AskFailureKind.GARBAGE, "a moment that is none") from None
    if read.tzinfo is None:
        raise AskFailed(AskFailureKind.GARBAGE, "a moment without an offset")
    return read.astimezone(UTC)


def text_of(node: object, *names: str) -> str:
    """The text at a path of names, cut; empty where there is none."""
    for name in names:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node[:TEXT_LENGTH_MAX] if isinstance(node, str) else ""


def listed_objects(node: object, what: str) -> list[Mapping[str, Any]]:
    """A list of objects. Raises AskFailed(GARBAGE)."""
    if not isinstance(node, list) or not all(isinstance(one, Mapping) for one in node):
        raise AskFailed(AskFailureKind.GARBAGE, f"no list of {what}")
    return node
