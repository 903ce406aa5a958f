"""What a worker has still to send to a pack process: frames, and the descriptors that travel with them.

The thread of the run sends. Others may add, and ring a bell for it.
"""

import contextlib
import socket
import threading
from collections import deque
from typing import Final

from runs.box.wire import MEBIBYTE

CHUNK: Final = MEBIBYTE // 4
DESCRIPTORS_MAX: Final = 32
"""That wait to be taken. A job that asks and does not read gets no more, and holds no more of its worker's."""


class Outgoing:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: deque[tuple[memoryview, socket.socket | None]] = deque()
        self._waiting = 0
        self._closed = False
        self._button: socket.socket | None = None

    def __bool__(self) -> bool:
        return bool(self._frames)

    def waiting_bytes(self) -> int:
        with self._lock:
            return sum(len(frame) for frame, _ in self._frames)

    def bell(self) -> socket.socket:
        """From now on it rings at what others add. To be closed by its owner, after this."""
        ours, self._button = socket.socketpair()
        for one in (ours, self._button):
            one.setblocking(False)
        return ours

    def add(self, frame: bytes, passing: socket.socket | None = None) -> None:
        """Takes the connection over, also where it is too late."""
        with self._lock:
            if passing is not None:
                if self._closed or self._waiting == DESCRIPTORS_MAX:
                    passing.close()
                    return
                self._waiting += 1
            if not self._closed:
                self._frames.append((memoryview(frame), passing))
            if self._button is not None:  # under the lock: a number that was closed may be another's by now
                with contextlib.suppress(OSError):
                    self._button.send(b"\0")

    def send(self, connection: socket.socket) -> None:
        """As much as it takes at once; nothing further to one that is closed."""
        frame, passing = self._frames[0]
        try:
            if passing is None:
                sent = connection.send(frame[:CHUNK])
            else:
                sent = socket.send_fds(connection, [frame[:CHUNK]], [passing.fileno()])
        except BlockingIOError:
            return
        except OSError:
            self._drop_all()
            return
        with self._lock:
            if passing is not None:
                passing.close()
                self._waiting -= 1
            if sent == len(frame):
                self._frames.popleft()
            else:
                self._frames[0] = (frame[sent:], None)

    def close(self) -> None:
        self._drop_all()
        with self._lock:
            self._closed = True
            if self._button is not None:
                self._button.close()
                self._button = None

    def _drop_all(self) -> None:
        with self._lock:
            for _, passing in self._frames:
                if passing is not None:
                    passing.close()
            self._frames.clear()
            self._waiting = 0
