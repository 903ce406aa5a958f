"""Users, processes, files, queues and network of their own, for a zygote and again for each of its jobs.

    nursery    asks for nothing: it holds sockets alone
    zygote     process 1 of its own; root is a read-only folder of links to what may be read (readable.py), without the
               state folder or an environment file; no network; keeps its capabilities, over these namespaces alone
    job        process 1 of its own, with its own /proc and a sized folder in memory; then drops all capabilities

A zygote's end is the end of everything in its namespaces, and a job's of everything in its own: the kernel does it, and
to wait for the first process is to wait for all. Nothing is covered that an `umount` could uncover: what a job
must not see is not there.
"""

import contextlib
import errno
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from runs.box import kernel

NOBODY: Final = 65_534
OF_JOB: Final = kernel.CLONE_NEWPID | kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC
OF_ZYGOTE: Final = OF_JOB | kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET
SPARED: Final = (signal.SIGABRT, signal.SIGALRM)
"""Signals that would end any other process, and not the first of a namespace, which then has to leave by itself."""
SCRATCH: Final = "/run/job"
"""A file system of its own for each job, below a folder (RUN) that Landlock's rules can name once for all."""
RUN: Final = "/run"
_ZYGOTE_BYTES: Final = 67_108_864

_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_EXECUTION = 1, 2, 4, 8  # MS_ and MOUNT_ATTR_ alike
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_DETACH: Final = 2
_HERE: Final = -100  # AT_FDCWD
_AT_RECURSIVE: Final = 0x8000
_EMPTY_PATH: Final = 4
_SET_STRING, _CREATE = 1, 6


class Ids:
    """Of this process, asked before it has others."""

    def __init__(self) -> None:
        self.user, self.group = os.geteuid(), os.getegid()


def enter_as_zygote(outer: Ids, readable: Iterable[str]) -> None:
    """In a process that was cloned into OF_ZYGOTE. Raises OSError where this machine does not allow it."""
    kernel.undumpable(really=False)  # else its own maps belong to root; nothing secret is here, and no job yet
    _write_user_namespace_file("/proc/self/setgroups", "deny")
    _write_user_namespace_file("/proc/self/uid_map", f"{NOBODY} {outer.user} 1")
    _write_user_namespace_file("/proc/self/gid_map", f"{NOBODY} {outer.group} 1")
    kernel.undumpable()
    _make_root([*dict.fromkeys(readable)])
    kernel.drop_bounding_set()


def enter_as_job(size_bytes: int, files_max: int) -> None:
    """In a process that was cloned into OF_JOB: mounts, then no capability."""
    _own_proc()
    options = f"size={size_bytes},nr_inodes={files_max},mode=700".encode()
    flags = _NO_SETUID | _NO_DEVICES | _NO_EXECUTION
    kernel.syscall("mount", b"tmpfs", SCRATCH.encode(), b"tmpfs", flags, options)
    kernel.drop_capabilities()


def _write_user_namespace_file(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="ascii")


# The zygote's root.


def _make_root(readable: list[str]) -> None:
    """A new root with links to what may be read; then the old one is let go, with all that was mounted in it."""
    sources = _sources(readable)
    kernel.syscall("mount", b"none", b"/", None, _RECURSIVE | _PRIVATE, None)
    kernel.syscall("mount", b"tmpfs", b"/tmp", b"tmpfs", _NO_SETUID | _NO_DEVICES, b"size=4m,mode=755")
    os.mkdir("/tmp/.old")  # noqa: PTH102, S108  the mount of the line above
    kernel.syscall("pivot_root", b"/tmp", b"/tmp/.old")
    os.chdir("/")
    for path, link in sources.items():
        _provide(path, link)
    for device in ("null", "random", "urandom"):
        _bind(f"/dev/{device}")
    for folder in ("proc", RUN[1:], SCRATCH[1:]):
        os.makedirs(f"/{folder}", exist_ok=True)  # noqa: PTH103
    for folder in ("/tmp", "/dev/shm"):  # noqa: S108
        with contextlib.suppress(FileExistsError):  # our code lies below it: then it is a read-only folder
            os.symlink(SCRATCH, folder)  # noqa: PTH211  for what asks for no other
    kernel.syscall("mount", b"/.old/proc", b"/proc", None, _BIND | _RECURSIVE, None)
    _own_proc()
    kernel.syscall("umount2", b"/.old", _DETACH)
    os.rmdir("/.old")  # noqa: PTH106
    options = f"size={_ZYGOTE_BYTES},mode=700".encode()
    kernel.syscall("mount", b"tmpfs", SCRATCH.encode(), b"tmpfs", _NO_SETUID | _NO_DEVICES | _NO_EXECUTION, options)
    _set_attributes("/", _READ_ONLY | _NO_SETUID | _NO_DEVICES, recursive=False)


def _sources(readable: list[str]) -> dict[str, str | None]:
    """Each real path, and each link on the way to it with where it points; parents first, and nothing twice."""
    found: dict[str, str | None] = {}
    for path in readable:
        _trace_box_root_path(path, found)
    ordered = sorted(found)
    kept: dict[str, str | None] = {}
    for path in ordered:
        if not any(path.startswith(f"{other}/") for other, link in kept.items() if link is None):
            kept[path] = found[path]
    return kept


def _trace_box_root_path(path: str, found: dict[str, str | None]) -> None:
    at = ""
    parts = [part for part in os.path.normpath(path).split("/") if part]
    for index, part in enumerate(parts):
        at = f"{at}/{part}"
        if os.path.islink(at):  # noqa: PTH114
            points = os.readlink(at)  # noqa: PTH115
            found[at] = points
            rest = parts[index + 1 :]
            _trace_box_root_path(os.path.join(os.path.dirname(at), points, *rest), found)  # noqa: PTH118, PTH120
            return
    found[at] = None


def _provide(path: str, link: str | None) -> None:
    if link is None:
        _bind(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    with contextlib.suppress(FileExistsError):
        os.symlink(link, path)  # noqa: PTH211


def _bind(path: str) -> None:
    old = f"/.old{path}"
    if os.path.isdir(old):  # noqa: PTH112
        os.makedirs(path, exist_ok=True)  # noqa: PTH103
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    kernel.syscall("mount", old.encode(), path.encode(), None, _BIND | _RECURSIVE, None)
    devices = 0 if path.startswith("/dev/") else _NO_DEVICES
    _set_attributes(path, _READ_ONLY | _NO_SETUID | devices, recursive=True)


def _set_attributes(path: str, attributes: int, *, recursive: bool) -> None:
    """Added to those that are there, which none in a user namespace may take away."""
    wanted = attributes.to_bytes(8, "little") + bytes(24)
    kernel.syscall("mount_setattr", _HERE, path.encode(), _AT_RECURSIVE if recursive else 0, wanted, len(wanted))


def _own_proc() -> None:
    """A /proc of this process's namespace in the place of the one that is there, and not on top of it."""
    context = kernel.syscall("fsopen", b"proc", 0)
    try:
        kernel.syscall("fsconfig", context, _SET_STRING, b"subset", b"pid", 0)
        kernel.syscall("fsconfig", context, _CREATE, None, None, 0)
        made = kernel.syscall("fsmount", context, 0, _NO_SETUID | _NO_DEVICES | _NO_EXECUTION)
    finally:
        os.close(context)
    try:
        kernel.syscall("umount2", b"/proc", _DETACH)
        kernel.syscall("move_mount", made, b"", _HERE, b"/proc", _EMPTY_PATH)
    finally:
        os.close(made)


# Whether all of it can be had here.


def namespaces_refusal(readable: Iterable[str]) -> str | None:
    """What this machine refuses, or None: a zygote and a job are made, for once and for nothing."""
    outer = Ids()
    reading, writing = os.pipe()
    try:
        pid = kernel.fork(OF_ZYGOTE)
    except OSError as error:
        os.close(reading)
        os.close(writing)
        return _namespace_error_text(error)
    if pid == 0:
        _try_all(outer, readable, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return None if said == "ok" else said or "the first process of the namespaces died"


def _try_all(outer: Ids, readable: Iterable[str], writing: int) -> None:
    try:
        enter_as_zygote(outer, readable)
        job = kernel.fork(OF_JOB)
        if job == 0:
            try:
                enter_as_job(_ZYGOTE_BYTES, 1_000)
            except OSError as error:
                os.write(writing, _namespace_error_text(error).encode())
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(job, 0)
        if status == 0:
            os.write(writing, b"ok")
    except OSError as error:
        os.write(writing, _namespace_error_text(error).encode())
    finally:
        os._exit(0)


def _namespace_error_text(error: OSError) -> str:
    return f"{error.strerror or error} ({errno.errorcode.get(error.errno or 0, '?')})"
