"""What the process `events` runs for automations: loops, each safe beside itself in another process."""

import threading
from collections.abc import Callable
from typing import Final

from dpp_project.outbox.events import Loop
from ops.automations.messages.sending import MessageSender
from ops.automations.reach import Outside
from ops.automations.sources.polling import SourcePoller
from ops.automations.tasks import buying, dispatching, ending

PAUSE_SECONDS: Final = 0.25
BATCH: Final = 50
BOUGHT_AT_ONCE: Final = 10
"""A turn starts all its tasks before it submits the first: of fifty that come at once each would wait for all."""


class _Bell:
    """Ends another loop's pause, in this process; a loop elsewhere finds the same by its next look."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def ring(self) -> None:
        self._rung.set()

    def wait(self, seconds: float) -> None:
        if self._rung.wait(seconds):
            self._rung.clear()


_dispatched: Final = _Bell()


def _turns(work: Callable[[int], int], *, limit: int, bell: _Bell | None = None) -> Callable[[threading.Event], None]:
    """Without a pause while there is much to do. What failed in a turn was put off there, by its row."""

    def run(stop: threading.Event) -> None:
        pause = stop.wait if bell is None else bell.wait
        while not stop.is_set():
            if work(limit) < limit:
                pause(PAUSE_SECONDS)

    return run


def _dispatch(limit: int) -> int:
    found = dispatching.dispatch_due(limit=limit)
    if found:
        _dispatched.ring()
    return found


def _look(stop: threading.Event) -> None:
    SourcePoller(Outside.real()).run(stop)


def _send(stop: threading.Event) -> None:
    MessageSender(Outside.real()).run(stop)


LOOPS: Final = (
    Loop("automations-look", _look),
    Loop("automations-dispatch", _turns(_dispatch, limit=BATCH)),
    Loop("automations-buy", _turns(lambda limit: buying.buy_due(limit=limit), limit=BOUGHT_AT_ONCE, bell=_dispatched)),
    Loop("automations-end", _turns(lambda limit: ending.end_due(limit=limit), limit=BATCH)),
    Loop("automations-send", _send),
)
