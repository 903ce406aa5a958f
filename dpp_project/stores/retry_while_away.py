"""Waiting for a dependency that is away, for a bounded time: what a worker does rather than give a run up."""

import time
from typing import Final

from django.db import connections

PAUSE_FIRST_SECONDS: Final = 0.1
PAUSE_MAX_SECONDS: Final = 2.0


class Patience:
    """So many seconds, in growing pauses."""

    def __init__(self, *, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._pause = PAUSE_FIRST_SECONDS
        self.tried = 1

    def lasts(self) -> bool:
        """Pause, and answer True; or, when the time is up, False at once."""
        if time.monotonic() + self._pause > self._until:
            return False
        connections.close_all()  # a broken connection is not asked again
        time.sleep(self._pause)
        self._pause = min(PAUSE_MAX_SECONDS, self._pause * 2)
        self.tried += 1
        return True
