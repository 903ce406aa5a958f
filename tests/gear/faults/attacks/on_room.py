"""Staying when it is over, and taking too much."""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

from runs.packs.pack import MEBIBYTE
from tests.gear.faults.attacks.table import (
    LEFT,
    LIBC,
    PR_SET_NAME,
    STRAY,
    attack,
    call,
)


def _named(at: dict[str, Any]) -> None:
    LIBC.prctl(PR_SET_NAME, STRAY.format(**at).encode(), 0, 0, 0)


@attack
def outlive_by_double_fork(at: dict[str, Any]) -> object:
    if os.fork() == 0:
        with contextlib.suppress(OSError):
            os.setsid()
        if os.fork() == 0:
            with contextlib.suppress(OSError):
                os.setsid()
            for number in signal.valid_signals():
                with contextlib.suppress(OSError):
                    signal.signal(number, signal.SIG_IGN)
            _named(at)
            time.sleep(600)
        os._exit(0)
    return None


@attack
def outlive_by_many(at: dict[str, Any]) -> object:
    for _ in range(20):
        if os.fork() == 0:
            with contextlib.suppress(OSError):
                os.setpgid(0, 0)
            _named(at)
            time.sleep(600)
    return None


@attack
def leave_session(at: dict[str, Any]) -> object:
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            os.setsid()
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


@attack
def inherited_descriptors(at: dict[str, Any]) -> object:
    found = []
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))  # noqa: PTH115
    known = ("/dev/null", "/proc/")
    strange = [name for name in found if not name.startswith((*known, "socket:"))]
    return strange or ([name for name in found if name.startswith("socket:")][1:])


@attack
def flood_of_descriptors(at: dict[str, Any]) -> object:
    held = []
    with contextlib.suppress(OSError):
        for _ in range(2_000):
            held.append(os.open(os.devnull, os.O_RDONLY))  # noqa: PERF401  cut by the error
    return len(held) if len(held) > 256 else None


def _chunks() -> Iterator[int]:
    yield from range(4_000)


@attack
def fill_the_disk_with_files(at: dict[str, Any]) -> object:
    """Each within the limit of one file, together not."""
    return _filled(lambda number: f"file-{number}", keep=True)


@attack
def fill_the_disk_with_unlinked_files(at: dict[str, Any]) -> object:
    return _filled(lambda number: f"file-{number}", keep=False)


@attack
def fill_dev_shm(at: dict[str, Any]) -> object:
    return _filled(lambda number: f"/dev/shm/{LEFT.format(**at)}{number}", keep=True)  # noqa: S108


@attack
def a_file_that_no_folder_shows(at: dict[str, Any]) -> object:
    return os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)


def _filled(name: Callable[[int], str], *, keep: bool) -> object:
    written, block, held = 0, b"\1" * MEBIBYTE, []
    with contextlib.suppress(OSError):
        for number in _chunks():
            file = os.open(name(number), os.O_CREAT | os.O_RDWR, 0o600)
            held.append(file)
            written += sum(os.write(file, block) for _ in range(4))
            if not keep:
                os.unlink(name(number))  # noqa: PTH108
            if written > 160 * MEBIBYTE:
                break
    time.sleep(0.3)  # where it is counted, that is done ten times a second
    return f"{written} bytes" if written > 128 * MEBIBYTE else None


@attack
def many_files(at: dict[str, Any]) -> object:
    made = 0
    with contextlib.suppress(OSError):
        for number in range(30_000):
            os.close(os.open(f"small-{number}", os.O_CREAT | os.O_WRONLY, 0o600))
            made += 1
    time.sleep(0.3)
    return made if made > 20_000 else None


@attack
def locked_memory(at: dict[str, Any]) -> object:
    memory = mmap.mmap(-1, MEBIBYTE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return LIBC.mlock(ctypes.c_void_p(address), ctypes.c_size_t(MEBIBYTE)) == 0


@attack
def type_into_the_terminal(at: dict[str, Any]) -> object:
    typed = 0
    for number in range(3):
        with contextlib.suppress(OSError):
            fcntl.ioctl(number, 0x5412, b"x")
            typed += 1
    one, _other = socket.socketpair()
    try:
        fcntl.ioctl(one, 0x5412, b"x")
    except OSError as error:
        return typed or (None if error.errno == errno.EACCES else "the kernel was asked")
    return typed


@attack
def change_user(at: dict[str, Any]) -> object:
    call("setresuid", 12345, 12345, 12345)
    return os.getuid()
