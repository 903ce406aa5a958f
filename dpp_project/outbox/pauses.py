"""Growing pauses of a loop whose queue or database is away."""

from typing import Final

from dpp_project.stores import postgres

FIRST_SECONDS: Final = 0.25
MAX_SECONDS: Final = 30.0


class Pauses:
    def __init__(self) -> None:
        self._next = FIRST_SECONDS

    def next_seconds(self, error: BaseException) -> float:
        """Where Postgres is what is away, not longer than any other loop waits for it."""
        most = postgres.AWAY_PAUSE_MAX_SECONDS if postgres.is_away(error) else MAX_SECONDS
        pause = min(most, self._next)
        self._next = min(MAX_SECONDS, self._next * 2)
        return pause

    def over(self) -> None:
        """The loop gets on again."""
        self._next = FIRST_SECONDS
