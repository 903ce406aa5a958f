"""How an attempt to send one message can end. What is not certain has a name of its own: it is never just repeated."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arrived:
    """`thread`: the one that it stands in, or begins."""

    external_id: str
    thread: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """Certain. It is sent again, not before so many seconds where the place asked for that.

    `pauses_source`: the place wants nothing at all until then.
    """

    why: str
    after_seconds: float = 0.0
    pauses_source: bool = False


@dataclass(frozen=True, slots=True)
class Unclear:
    """It may have arrived. It is looked up, not before so many seconds where that is no use."""

    why: str
    after_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RefusedForGood:
    """Certain, and no repetition would change it."""

    why: str


@dataclass(frozen=True, slots=True)
class ThreadGone:
    """It was posted, and not in its thread: that is no more. `left_as` is where it still stands; empty: taken back."""

    left_as: str


SendOutcome = Arrived | NotSent | Unclear | RefusedForGood | ThreadGone
