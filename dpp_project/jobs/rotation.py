"""A job whose pass may not come to the end of what it finds: the next pass begins behind the last one's end."""

from bisect import bisect
from collections.abc import Iterable


class Rotation:
    """Of one job in one process. A process that starts anew begins at the front, once."""

    def __init__(self) -> None:
        self.after = ""
        """The last that a pass came to; empty when one has come to all."""

    def in_turn(self, found: Iterable[str]) -> list[str]:
        """Those behind the last one first."""
        keys = sorted(found)
        first = bisect(keys, self.after)
        return keys[first:] + keys[:first]
