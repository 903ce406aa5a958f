"""No network for any pack: the kernel refuses it every new socket, also to its children.

A connection that its worker made and handed over is all it can have, and that leads nowhere else: `connect` would take
it apart and dial any address anew, in the network of the worker.

A filter of the kernel (seccomp) costs microseconds, needs no privilege and also shuts out Unix sockets on disk, such as
a database's; a network namespace would need a user namespace, which many hosts forbid. `socketpair` and pipes stay.
Linux on x86-64 and arm64; elsewhere a pack keeps the network it is given.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from dataclasses import dataclass
from typing import Final

PR_SET_NO_NEW_PRIVS: Final = 38
PR_SET_SECCOMP: Final = 22
SECCOMP_MODE_FILTER: Final = 2

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_IF_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | errno.EACCES
_NUMBER_AT: Final = 0  # in struct seccomp_data
_ARCHITECTURE_AT: Final = 4
_X32_CALLS: Final = 0x40000000


@dataclass(frozen=True)
class _Machine:
    audit: int
    refused: tuple[int, ...]
    """socket, connect, accept, bind, listen, accept4; and io_uring_setup, which does all of it without them."""


_MACHINES: Final = {
    "x86_64": _Machine(audit=0xC000003E, refused=(41, 42, 43, 49, 50, 288, 425)),
    "aarch64": _Machine(audit=0xC00000B7, refused=(198, 203, 202, 200, 201, 242, 425)),
}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def can_be_cut() -> bool:
    return _PROGRAM is not None


def cut() -> None:
    """From here on this process and its children get EACCES for a new socket. Raises OSError where it cannot."""
    if _PROGRAM is None:
        raise OSError(errno.ENOSYS, "no filter is known for this machine")
    if (
        _LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        or _LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(_PROGRAM), 0, 0) != 0
    ):
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


def _program(machine: _Machine) -> _Program:
    count = len(machine.refused)
    steps = (
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_IF_EQUAL, 0, count + 3, machine.audit),  # calls of another architecture have other numbers: refused
        (_LOAD, 0, 0, _NUMBER_AT),
        (_IF_AT_LEAST, count + 1, 0, _X32_CALLS),
        *((_IF_EQUAL, count - at, 0, number) for at, number in enumerate(machine.refused)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    return _Program(len(steps), ctypes.cast(code, ctypes.c_void_p))


# Made once, in the zygote: a pack process that made them again would pay for it at each run.
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_MACHINE: Final = _MACHINES.get(platform.machine()) if sys.platform == "linux" else None
_PROGRAM: Final = None if _MACHINE is None else _program(_MACHINE)
