"""Growing pauses of a loop whose queue or database is away."""

from typing import Final

FIRST_SECONDS: Final = 0.25
MAX_SECONDS: Final = 30.0


class Pauses:
    def __init__(self) -> None:
        self._next = FIRST_SECONDS

    def next_seconds(self) -> float:
        pause, self._next = self._next, min(MAX_SECONDS, self._next * 2)
        return pause

    def over(self) -> None:
        """The loop gets on again."""
        self._next = FIRST_SECONDS
