"""Sockets to whatever listens, of its own and turned elsewhere."""

import array
import contextlib
import ctypes
import errno
import os
import socket
import struct
from collections.abc import Callable
from typing import Any

from tests.gear.faults.attacks.table import (
    ATTACKS,
    Attack,
    attack,
    call,
    did,
    each,
)


def _connect(family: int, kind: int, address: Callable[[dict[str, Any]], Any]) -> Attack:
    def tried(at: dict[str, Any]) -> object:
        one = socket.socket(family, kind)
        one.settimeout(1)
        one.connect(address(at))
        return did(one.send, b"x")

    return tried


ATTACKS["tcp"] = _connect(socket.AF_INET, socket.SOCK_STREAM, lambda at: ("127.0.0.1", at["tcp"]))
ATTACKS["tcp6"] = _connect(socket.AF_INET6, socket.SOCK_STREAM, lambda at: ("::1", at["tcp"]))
ATTACKS["udp"] = _connect(socket.AF_INET, socket.SOCK_DGRAM, lambda at: ("127.0.0.1", at["tcp"]))
ATTACKS["unix"] = _connect(socket.AF_UNIX, socket.SOCK_STREAM, lambda at: at["unix"])
ATTACKS["unix_abstract"] = _connect(socket.AF_UNIX, socket.SOCK_STREAM, lambda at: "\0" + at["abstract"])
each("AF_NETLINK AF_PACKET AF_VSOCK AF_ALG AF_UNIX AF_INET AF_CAN",
     lambda name: lambda _at: socket.socket(getattr(socket, name), socket.SOCK_RAW if "PACK" in name else
     socket.SOCK_DGRAM if "LINK" in name else socket.SOCK_RAW if "CAN" in name else
     socket.SOCK_SEQPACKET if "ALG" in name else socket.SOCK_STREAM).fileno(), prefix="socket_")  # fmt: skip


def _own_socket() -> socket.socket:
    """The one to the worker; what a broker hands over is of the same use."""
    for number in range(3, 64):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):  # noqa: PTH115
                return socket.socket(fileno=os.dup(number))
    raise OSError(errno.EBADF, "no socket")


@attack
def turn_a_given_socket_elsewhere(at: dict[str, Any]) -> object:
    unspecified = ctypes.create_string_buffer(struct.pack("H14x", socket.AF_UNSPEC))
    pair, _other = socket.socketpair()
    try:
        call("connect", pair.fileno(), unspecified, 16)
    except OSError as error:
        return None if error.errno == errno.EACCES else "the kernel was asked"
    return "disconnected"


@attack
def listen_on_a_given_socket(at: dict[str, Any]) -> object:
    pair, _other = socket.socketpair()
    try:
        pair.bind("\0mine")
    except OSError as error:
        return None if error.errno == errno.EACCES else "the kernel was asked"
    return "bound"


@attack
def fast_open(at: dict[str, Any]) -> object:
    pair, _other = socket.socketpair()
    try:
        pair.sendmsg([b"x"], [], 0x2000_0000, None)
    except OSError as error:
        return None if error.errno == errno.EACCES else "the kernel was asked"
    return "sent"


@attack
def send_descriptors_to_the_worker(at: dict[str, Any]) -> object:
    """The worker takes none: it counts its own afterwards."""
    one = _own_socket()
    for _ in range(40):
        rights = array.array("i", [os.open(os.devnull, os.O_RDONLY) for _ in range(4)])
        with contextlib.suppress(OSError):
            one.sendmsg([b""], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        for number in rights:
            os.close(number)
    return None
