"""Locks by name, between processes: a file each, locked with flock, gone when its thing is gone.

A lock is of the open file, so it also holds between threads, and as long as any process has the descriptor: a tool
that inherited it keeps its volume locked though the process that started it died.
"""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

POLL_SECONDS: Final = 0.005
LEFTOVER_SECONDS: Final = 3_600


class LockedByAnotherError(Exception):
    """Another holds it, and did not let go in time."""


class NameLock:
    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd

    def forget(self) -> None:
        """The thing is gone, and so is its file; a rival that waits for this one notices, and makes a new one."""
        self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def held_name_lock(path: Path, *, seconds: float, shared: bool = False) -> Iterator[NameLock]:
    """Raises LockedByAnotherError; with 0 seconds it does not wait."""
    kind = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    end = time.monotonic() + seconds
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if _driver_flock_taken(fd, kind) and _is_still(path, fd):
                yield NameLock(path, fd)
                return
        finally:
            os.close(fd)
        if time.monotonic() >= end:
            raise LockedByAnotherError(path.name)
        time.sleep(POLL_SECONDS)


def remove_leftovers(folder: Path, *, kept: Callable[[str], bool]) -> None:
    """Files of names that never came to be, or whose taker died as it let go. One that may be in use is not even
    tried: its taker may wait for nobody.
    """
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError, LockedByAnotherError):
            if not kept(path.name) and time.time() - path.stat().st_mtime > LEFTOVER_SECONDS:
                with held_name_lock(path, seconds=0) as lock:
                    lock.forget()


def _driver_flock_taken(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind)
    except OSError as fault:
        if fault.errno in {errno.EWOULDBLOCK, errno.EINTR}:
            return False
        raise
    return True


def _is_still(path: Path, fd: int) -> bool:
    """Whether the file was not forgotten and made anew between our open and our lock."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False
