"""What an app needs to take part: a module `events.py` with HANDLERS and LOOPS, made of these names.

This module is also the outbox's own part: its loops publish and consume.
"""

import threading
from typing import Final

from dpp_project.outbox import handlers, queue
from dpp_project.outbox.consumer import EventConsumer
from dpp_project.outbox.descriptors import Event, EventDescriptor, Handler, Loop, NewEvent, NotRetryable
from dpp_project.outbox.publisher import Publisher

__all__ = ["LOOPS", "Event", "EventDescriptor", "Handler", "Loop", "NewEvent", "NotRetryable"]

CONSUMERS: Final = 4


def publish_events(stop: threading.Event) -> None:
    if queue.URL is None:
        stop.wait()
        return
    Publisher(sender=queue.event_sender).run(stop)


def consume_events(stop: threading.Event) -> None:
    if queue.URL is None:
        stop.wait()
        return
    EventConsumer(url=queue.URL, sender=queue.event_sender, handlers=handlers.event_handlers()).run(stop)


LOOPS: Final[tuple[Loop, ...]] = (
    Loop("events-publisher", publish_events),
    *(Loop(f"events-consumer-{number}", consume_events) for number in range(1, CONSUMERS + 1)),
)
