"""The connections of one process, as the kernel sees them: too many of one address, and answers that are not taken.

The server tells an application of requests alone. Before one there may be a connection that says little, and after one
an answer that its client does not read; both hold memory and one of the process's places. A thread looks at the
process's own sockets every few seconds and closes those; where the kernel is no Linux it does not start.
"""

import contextlib
import fcntl
import os
import socket
import struct
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import structlog

from dpp_project.http.client_address import site_of

log = structlog.get_logger("dpp.api_server")

_SIOCOUTQ: Final = 0x5411
_TCP_INFO_BYTES: Final = 136
_LAST_DATA_RECEIVED: Final = struct.Struct("@I"), 52
_BYTES_ACKED: Final = struct.Struct("@Q"), 120
_RESET: Final = struct.pack("@ii", 1, 0)


@dataclass(frozen=True)
class ConnectionLimits:
    """An answer that waits must move by `bytes_per_window` in every `window_seconds`."""

    per_address: int = 500
    window_seconds: float = 10.0
    bytes_per_window: int = 65_536
    look_every_seconds: float = 2.0


@dataclass(frozen=True)
class _ClientConnection:
    """One connection to our port, by a descriptor of our own: the server may close and reuse its own meanwhile."""

    own: socket.socket
    peer: tuple[str, int]
    silent_ms: int
    bytes_waiting: int
    bytes_acked: int

    def cut(self) -> None:
        """Without a goodbye: what it would not take is dropped, too."""
        with contextlib.suppress(OSError):
            self.own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.own.shutdown(socket.SHUT_RDWR)


class ConnectionWatch:
    """What is too much, in the order in which it is found. `is_exempt` says which addresses are proxies of ours."""

    def __init__(self, port: int, limits: ConnectionLimits, *, is_exempt: Callable[[str], bool]) -> None:
        self._port = port
        self._limits = limits
        self._is_exempt = is_exempt
        self._waiting: dict[tuple[str, int], tuple[float, int]] = {}  # since when, and how much was taken by then

    def start(self) -> None:
        if sys.platform == "linux":
            threading.Thread(target=self._look_for_ever, name="connections", daemon=True).start()

    def _look_for_ever(self) -> None:
        while True:
            time.sleep(self._limits.look_every_seconds)
            try:
                self.look(time.monotonic())
            except Exception as error:  # the thread must go on: without it none is cut
                log.exception("connections were not looked at", exc_info=error)

    def cut(self, address: str, port: int) -> None:
        """The one connection from there: an answer that was given up must not look whole."""
        if sys.platform == "linux":
            for connection in _connections_to(self._port):
                with contextlib.closing(connection.own):
                    if connection.peer[1] == port and site_of(connection.peer[0]) == site_of(address):
                        connection.cut()

    def look(self, now: float) -> None:
        with contextlib.ExitStack() as stack:
            found = []
            for connection in _connections_to(self._port):
                stack.callback(connection.own.close)
                found.append(connection)
            self._cut_those_that_do_not_read(found, now)
            self._cut_those_beyond_the_limit(found)

    def _cut_those_that_do_not_read(self, found: list[_ClientConnection], now: float) -> None:
        before, self._waiting = self._waiting, {}
        for connection in found:
            if not connection.bytes_waiting:
                continue
            since, acked = before.get(connection.peer, (now, connection.bytes_acked))
            if connection.bytes_acked - acked >= self._limits.bytes_per_window:
                since, acked = now, connection.bytes_acked
            if now - since < self._limits.window_seconds:
                self._waiting[connection.peer] = since, acked
            else:
                connection.cut()  # first, then said: a client that reads again meanwhile would get the rest
                log.info("answer not taken, connection closed", client=connection.peer[0])

    def _cut_those_beyond_the_limit(self, found: list[_ClientConnection]) -> None:
        by_site: dict[str, list[_ClientConnection]] = defaultdict(list)
        for connection in found:
            by_site[site_of(connection.peer[0])].append(connection)
        for site, held in by_site.items():
            surplus = len(held) - self._limits.per_address
            if surplus > 0 and not self._is_exempt(held[0].peer[0]):
                log.warning(
                    "too many connections of one address", client=site, closed=surplus, kept=len(held) - surplus
                )
                for connection in sorted(held, key=lambda one: one.silent_ms, reverse=True)[:surplus]:
                    connection.cut()


def _connections_to(port: int) -> Iterator[_ClientConnection]:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  the names are all that is wanted, of thousands
        own = _duplicate(int(name))
        if own is not None:
            found = None
            with contextlib.suppress(OSError):
                found = _client_connection_of_socket(own, port)
            if found is None:
                own.close()
            else:
                yield found


def _duplicate(number: int) -> socket.socket | None:
    try:
        copy = os.dup(number)
    except OSError:  # closed since
        return None
    try:
        return socket.socket(fileno=copy)
    except OSError:  # no socket
        os.close(copy)
        return None


def _client_connection_of_socket(own: socket.socket, port: int) -> _ClientConnection | None:
    if own.family not in (socket.AF_INET, socket.AF_INET6) or own.getsockname()[1] != port:
        return None
    peer = own.getpeername()  # raises on the socket that listens
    info = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    waiting = fcntl.ioctl(own.fileno(), _SIOCOUTQ, b"\0\0\0\0")
    return _ClientConnection(
        own=own,
        peer=(peer[0], peer[1]),
        silent_ms=_field(info, *_LAST_DATA_RECEIVED),
        bytes_waiting=int.from_bytes(waiting, sys.byteorder),
        bytes_acked=_field(info, *_BYTES_ACKED),
    )


def _field(info: bytes, form: struct.Struct, offset: int) -> int:
    return int(form.unpack_from(info, offset)[0])
