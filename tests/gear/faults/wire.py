"""Every request that a process sends to Postgres, Redis, SQS and S3, counted; and a fault at the one that is chosen.

The process under test knows nothing of it: its addresses lead here. A request is what its protocol says, not a chunk of
bytes, so "after" means that the service has done it and the answer is lost.
"""

import contextlib
import enum
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

CHUNK = 65_536
LOOK_SECONDS = 0.02
ANSWER_SECONDS = 10.0


class Fault(enum.Enum):
    KILL_BEFORE = "killed before"
    KILL_AFTER = "killed after"
    CUT_BEFORE = "cut before"
    CUT_AFTER = "cut after"

    @property
    def kills(self) -> bool:
        return self in (Fault.KILL_BEFORE, Fault.KILL_AFTER)

    @property
    def delivers(self) -> bool:
        return self in (Fault.KILL_AFTER, Fault.CUT_AFTER)


class Framing(Protocol):
    def ends_request(self, data: bytes) -> bool:
        """Whether these bytes, after those before them, complete a request that is answered."""


class RedisFraming:
    """redis-py sends a command or a pipeline whole, each ending as the protocol's strings do."""

    def ends_request(self, data: bytes) -> bool:
        return data.endswith(b"\r\n")


class PostgresFraming:
    """First the two greetings, which have no type; then messages of type and length. A goodbye is not answered."""

    def __init__(self) -> None:
        self._greeted = False
        self._rest = b""

    def ends_request(self, data: bytes) -> bool:
        self._rest += data
        kind = b""
        while len(self._rest) >= 5:
            start = 1 if self._greeted else 0
            (length,) = struct.unpack_from("!I", self._rest, start)
            if len(self._rest) < start + length:
                return False
            kind = self._rest[:1] if self._greeted else b"greeting"
            if not self._greeted and self._rest[4:8] != struct.pack("!I", 80_877_103):  # not the question about TLS
                self._greeted = True
            self._rest = self._rest[start + length :]
        return kind in (b"greeting", b"S", b"Q", b"p") and not self._rest


class HttpFraming:
    def __init__(self) -> None:
        self._rest = b""

    def ends_request(self, data: bytes) -> bool:
        self._rest += data
        head, separator, body = self._rest.partition(b"\r\n\r\n")
        if not separator:
            return False
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                length = int(value)
        if len(body) < length:
            return False
        self._rest = b""
        return True


FRAMINGS: Final[Mapping[str, Callable[[], Framing]]] = {
    "postgres": PostgresFraming,
    "redis": RedisFraming,
    "aws": HttpFraming,
}


@dataclass
class Armed:
    """The fault that is set, and how far the count is."""

    pid: int
    at: int | None
    fault: Fault | None
    count: int = 0
    struck: bool = False
    said: list[str] = field(default_factory=list)


class Wire:
    """`with` opens one port before each service."""

    def __init__(self, *, postgres: tuple[str, int], redis: tuple[str, int], aws: tuple[str, int]) -> None:
        self._targets = {"postgres": postgres, "redis": redis, "aws": aws}
        self._guard = threading.Lock()
        self._armed: Armed | None = None
        self._stopping = threading.Event()
        self._listeners: list[socket.socket] = []
        self.ports: dict[str, int] = {}

    def __enter__(self) -> Self:
        for name in self._targets:
            listener = socket.create_server(("127.0.0.1", 0), backlog=128)
            self._listeners.append(listener)
            self.ports[name] = listener.getsockname()[1]
            threading.Thread(target=self._accept, args=(listener, name), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    @contextmanager
    def armed(self, *, pid: int, at: int | None = None, fault: Fault | None = None) -> Iterator[Armed]:
        """Count the requests from now on, and strike at the one with number `at` (from 0)."""
        armed = Armed(pid, at, fault)
        self._armed = armed
        try:
            yield armed
        finally:
            self._armed = None

    def _accept(self, listener: socket.socket, name: str) -> None:
        while not self._stopping.is_set():
            try:
                near, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near, name), daemon=True).start()

    def _serve(self, near: socket.socket, name: str) -> None:
        with contextlib.suppress(OSError), near, socket.create_connection(self._targets[name], timeout=5) as far:
            far.settimeout(None)
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._carry(near, far, name, FRAMINGS[name]())

    def _carry(self, near: socket.socket, far: socket.socket, name: str, framing: Framing) -> None:
        while not self._stopping.is_set():
            for source in select.select([near, far], [], [], LOOK_SECONDS)[0]:
                data = source.recv(CHUNK)
                if not data:
                    return
                if source is near:
                    fault, pid = self._meets(framing, data, name)
                    if fault is not None:
                        _strike(near, far, data, fault, pid)
                        return
                (far if source is near else near).sendall(data)

    def _meets(self, framing: Framing, data: bytes, name: str) -> tuple[Fault | None, int]:
        if not framing.ends_request(data):
            return None, 0
        with self._guard:
            armed = self._armed
            if armed is None:
                return None, 0
            number, armed.count = armed.count, armed.count + 1
            armed.said.append(name)
            if armed.fault is None or number != armed.at:
                return None, 0
            armed.struck = True
            return armed.fault, armed.pid


def _strike(near: socket.socket, far: socket.socket, data: bytes, fault: Fault, pid: int) -> None:
    if fault.delivers:
        far.sendall(data)
        far.settimeout(ANSWER_SECONDS)
        far.recv(CHUNK)  # done there; the answer goes no further
    if fault.kills:
        os.kill(pid, signal.SIGKILL)
    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
