"""What an app needs to take part: a module `events.py` with HANDLERS and LOOPS, made of these."""

from typing import Final

from dpp_project.outbox.descriptors import Event, EventDescriptor, Handler, Loop, NewEvent, NotRetryable

__all__ = ["LOOPS", "Event", "EventDescriptor", "Handler", "Loop", "NewEvent", "NotRetryable"]

LOOPS: Final[tuple[Loop, ...]] = ()
