"""The loop that looks at sources: each look in a thread of its own, so that one that hangs holds up no other.

A look is bounded (60 s), leased (120 s) and marked by the holder of the lease. Any number of processes may run this;
one that is killed leaves leases that run out.
"""

import threading
import time
from typing import Final

from dpp_project.stores.postgres import make_room
from ops.automations import turning
from ops.automations.reach import Outside
from ops.automations.sources import looks, source_marks
from ops.automations.sources.source_marks import SourceLook

LOOKS_AT_ONCE: Final = 16
CONNECTIONS: Final = 8
"""A look holds one for moments only, while it asks what was seen and keeps what it found."""
TURN_SECONDS: Final = 0.5
END_SECONDS: Final = 10.0


class SourcePoller:
    """`run` in one thread."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._at_work: list[threading.Thread] = []

    def run(self, stop: threading.Event) -> None:
        make_room(CONNECTIONS)
        turning.turn_until(stop, self.turn, pause_seconds=TURN_SECONDS, what="sources")
        self.end()

    def turn(self) -> None:
        """Begins a look at each source that is due, as far as there is room."""
        self._at_work = [thread for thread in self._at_work if thread.is_alive()]
        room = LOOKS_AT_ONCE - len(self._at_work)
        if room <= 0:
            return
        for look in source_marks.claim_source_looks(kinds=[kind.value for kind in looks.KINDS], limit=room):
            self._begin(look)

    def end(self, seconds: float = END_SECONDS) -> None:
        """Those under way have a moment; what is cut off is looked at again."""
        until = time.monotonic() + seconds
        for thread in self._at_work:
            thread.join(max(until - time.monotonic(), 0.0))

    def _begin(self, look: SourceLook) -> None:
        thread = threading.Thread(
            target=looks.look_at, args=(look, self._outside), name=f"look at {look.source.name}", daemon=True
        )
        thread.start()
        self._at_work.append(thread)
