"""What the readers of all languages share: how much is looked at, and how much of it is kept."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ops.auth_errors.normaliser.frameworks import in_app
from ops.auth_errors.normaliser.traces import CAUSE, FRAMES_MAX, NAME_LENGTH_MAX, TracedException, TracedFrame

FRAMES_SCANNED: Final = 200
"""Of one exception, the innermost; so a text of nothing but frames costs no more than a deep trace."""
LINE_LENGTH_MAX: Final = 1_000
"""A longer line is no frame."""


@dataclass
class FoundException:
    """`exception_class` is empty where the text does not name it."""

    exception_class: str
    frames: list[TracedFrame]
    relation: str = CAUSE


@dataclass
class FoundChain:
    """What a text holds, the root cause first."""

    exceptions: list[FoundException] = field(default_factory=list)


def traced_frame(*, module: str = "", function: str = "", file: str = "") -> TracedFrame:
    """The end of a path says most, so a long one loses its beginning."""
    return {
        "module": module[:NAME_LENGTH_MAX],
        "function": function[:NAME_LENGTH_MAX],
        "file": file[-NAME_LENGTH_MAX:],
    }


def as_traced(found: FoundException, language: str) -> TracedException:
    return {
        "exception_class": found.exception_class[:NAME_LENGTH_MAX],
        "relation": found.relation,
        "frames": kept_frames(found.frames, language),
    }


def kept_frames(frames: Iterable[TracedFrame], language: str) -> list[TracedFrame]:
    """Each place once, as a recursion passes it, and the application's own places before those of frameworks."""
    once = list({tuple(one.values()): one for one in frames}.values())
    if len(once) <= FRAMES_MAX:
        return once
    own = [number for number, one in enumerate(once) if in_app(language, one)][:FRAMES_MAX]
    others = [number for number in range(len(once)) if number not in set(own)][: FRAMES_MAX - len(own)]
    return [once[number] for number in sorted((*own, *others))]
