"""Sends that many threads make at once go out together, up to ten in a request (DPP-88).

A thread sends at once where fewer than IN_FLIGHT requests are under way; the others wait for one of them to end, and
the next request takes what waits, first come first. No timer: where nothing else is sent nothing waits. Each thread is
answered for its own message alone: with what became of it in the batch, or of the batch where that failed whole.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from dpp_project.aws.sqs_sender import BATCH, QueueMessage, Sender, SendFailed

IN_FLIGHT: Final = 1
"""With two, sixteen threads sent a message for 0.24 requests and not for 0.15, none of them sooner."""
BYTES_MOST: Final = 200_000
"""SQS takes 262,144 in one request, names and attributes included."""


class _Waiting:
    """One thread's message. `failure` is read once `is_done`."""

    __slots__ = ("failure", "is_done", "message")

    def __init__(self, message: QueueMessage) -> None:
        self.message = message
        self.is_done = False
        self.failure: BaseException | None = None


class JoinedSends:
    """Thread-safe. `sender` is asked for at each request, so that one that was forgotten is made anew."""

    def __init__(self, sender: Callable[[], Sender], *, in_flight: int = IN_FLIGHT) -> None:
        self._sender = sender
        self._in_flight = in_flight
        self._under_way = 0
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()

    def send(self, message: QueueMessage) -> None:
        """Raises SendFailed, which leaves open whether the message is in the queue."""
        mine = _Waiting(message)
        with self._changed:
            self._queue.append(mine)
        while some := self._mine_to_send(mine):
            try:
                _carry_out(self._sender, some)
            finally:
                with self._changed:
                    self._under_way -= 1
                    for one in some:
                        one.is_done = True
                    self._changed.notify_all()
        if mine.failure is not None:
            raise mine.failure

    def _mine_to_send(self, mine: _Waiting) -> list[_Waiting]:
        """What this thread is to send now, which may be others' before its own; nothing once its own is done."""
        with self._changed:
            while not mine.is_done and (self._under_way >= self._in_flight or not self._queue):
                self._changed.wait()
            if mine.is_done:
                return []
            self._under_way += 1
            some = [self._queue.popleft()]
            size = len(some[0].message.body)
            while self._queue and len(some) < BATCH and (size := size + len(self._queue[0].message.body)) <= BYTES_MOST:
                some.append(self._queue.popleft())
            return some


def _carry_out(sender: Callable[[], Sender], some: Sequence[_Waiting]) -> None:
    """Each is left with its own failure, or none. What is no failure to send ends this thread and fails them all."""
    try:
        if len(some) == 1:
            sender().send(some[0].message)
            return
        for at, failure in sender().send_batch([one.message for one in some]).items():
            some[at].failure = failure
    except SendFailed as error:
        for one in some:
            one.failure = error
    except BaseException as error:
        for one in some:
            one.failure = SendFailed(type(error).__name__)
        raise
