"""A TCP proxy whose far side can be made to fail while connections are open.

Outages in tests come from here, never from stopping a service that others use.
"""

import contextlib
import enum
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

CHUNK = 65_536
LOOK_SECONDS = 0.02


class Mode(enum.Enum):
    PASS = "pass"
    REFUSE = "refuse"
    """Nobody listens: connecting is refused, open connections are cut."""
    RESET = "reset"
    """Connecting works, then everything is reset, open connections too."""
    BLACK_HOLE = "black hole"
    """Connecting works and bytes are taken; nothing ever comes back."""


CUT: Final = frozenset({Mode.REFUSE, Mode.RESET})


class Proxy:
    """Stands in front of `target`; `with` starts and stops it. Every change holds for open connections as well."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.mode = Mode.PASS
        self.delay_seconds = 0.0
        self.connections = 0
        self._cut_after: int | None = None
        self._holds_back = False
        self._held_back: list[tuple[socket.socket, bytes]] = []
        self._answered = 0
        self._stopping = threading.Event()
        self._guard = threading.Lock()
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._stop_listening()
        self._cut_all()
        for far, _ in self._held_back:
            far.close()

    def set(self, mode: Mode) -> None:
        self.mode = mode
        if mode is Mode.REFUSE:
            self._stop_listening()
        elif self._listener is None:
            self._listen()
        if mode in CUT:
            self._cut_all()

    def delay(self, *, ms: float) -> None:
        """Each chunk in each direction comes this much later."""
        self.delay_seconds = ms / 1_000

    def cut_after(self, answered_bytes: int | None) -> None:
        """Reset a connection once this many bytes of answers, counted from now over all connections, went through."""
        with self._guard:
            self._answered, self._cut_after = 0, answered_bytes

    def hold_back(self) -> None:
        """The next thing that is sent is kept, and its sender cut off; it arrives at `let_go`."""
        self._holds_back = True

    def let_go(self) -> None:
        """What was kept arrives now, and is answered to nobody."""
        assert self._held_back, "nothing was held back"
        while self._held_back:
            far, data = self._held_back.pop(0)
            with far:
                far.sendall(data)
                assert far.recv(CHUNK)

    @contextmanager
    def outage(self, mode: Mode) -> Iterator[None]:
        self.set(mode)
        try:
            yield
        finally:
            self.set(Mode.PASS)

    def _listen(self) -> None:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(128)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):  # wakes the accepting thread
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopping.is_set():
            try:
                near, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        if self.mode in CUT:
            _reset(near)
            return
        far: socket.socket | None = None
        try:
            self._track(near)
            far = socket.create_connection(self.target, timeout=5)
            self._track(far)
            if self.mode in CUT:
                return  # the cut came in between, and has not met these two
            if self._carry(near, far):
                far = None
        except OSError:
            pass
        finally:
            for one in (near, far):
                if one is not None:
                    self._forget(one)

    def _carry(self, near: socket.socket, far: socket.socket) -> bool:
        """Until one side ends; True if the far side is to stay, since something waits for it."""
        while not self._stopping.is_set():
            for source in select.select([near, far], [], [], LOOK_SECONDS)[0]:
                data = source.recv(CHUNK)
                if self.mode is Mode.BLACK_HOLE:
                    self._swallow(near)
                    return False
                if not data:
                    return False
                if self._holds_back and source is near:
                    self._holds_back = False
                    self._held_back.append((far, data))
                    return True
                if self.delay_seconds:
                    time.sleep(self.delay_seconds)
                if source is far and self._over_the_cut(len(data)):
                    _reset(near)
                    return False
                (far if source is near else near).sendall(data)
        return False

    def _swallow(self, near: socket.socket) -> None:
        """Lost bytes stay lost: this connection answers no more, even when the outage ends."""
        while not self._stopping.is_set():
            if select.select([near], [], [], LOOK_SECONDS)[0] and not near.recv(CHUNK):
                return

    def _over_the_cut(self, size: int) -> bool:
        with self._guard:
            self._answered += size
            return self._cut_after is not None and self._answered > self._cut_after

    def _track(self, one: socket.socket) -> None:
        with self._guard:
            self._open.add(one)

    def _forget(self, one: socket.socket) -> None:
        with self._guard:
            self._open.discard(one)
        one.close()

    def _cut_all(self) -> None:
        with self._guard:
            found = list(self._open)
        for one in found:
            with contextlib.suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.shutdown(socket.SHUT_RDWR)


def _reset(one: socket.socket) -> None:
    """Close with RST instead of FIN."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()
