"""Namespaces, mounts, users, and programs of its own."""

import ctypes
import mmap
import os
import signal
import struct
from pathlib import Path
from typing import Any, Final

from tests.gear.faults.attacks.table import (
    ATTACKS,
    DESTRUCTIVE,
    LIBC,
    X86,
    Attack,
    attack,
    call,
    did,
    each,
)

_KINDS: Final = {
    "user": 0x10000000, "mnt": 0x20000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x8000000, "uts": 0x4000000,
}  # fmt: skip


def _clone_into(kind: str) -> Attack:
    def tried(_at: dict[str, Any]) -> object:
        pid = call("clone", _KINDS[kind] | _KINDS["user"] | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        return did(os.waitpid, pid, 0)

    return tried


each(" ".join(_KINDS), lambda kind: lambda _at: call("unshare", _KINDS[kind] | _KINDS["user"]) == 0, prefix="unshare_")
each("user net mnt", _clone_into, prefix="clone_")
each("worker zygote", lambda who: lambda at: _enter(f"/proc/{at[who]}/ns/mnt"), prefix="setns_")


def _enter(path: str) -> object:
    return call("setns", os.open(path, os.O_RDONLY), 0) == 0


@attack
def clone3_into_a_user_namespace(at: dict[str, Any]) -> object:
    arguments = ctypes.create_string_buffer(struct.pack("QQQQQ", _KINDS["user"], 0, 0, 0, signal.SIGCHLD) + bytes(48))
    pid = call("clone3", arguments, 88)
    if pid == 0:
        os._exit(0)
    return did(os.waitpid, pid, 0)


ATTACKS["mount_tmpfs"] = lambda _at: call("mount", b"x", b".", b"tmpfs", 0, None) == 0
ATTACKS["bind_the_root"] = lambda _at: call("mount", b"/", b".", None, 0x1000, None) == 0
ATTACKS["umount_proc"] = lambda _at: call("umount2", b"/proc", 2) == 0
ATTACKS["umount_scratch"] = lambda _at: call("umount2", b"/run/job", 2) == 0
ATTACKS["remount_writable"] = lambda _at: call("mount", b"x", b"/usr", None, 32 | 0x1000, None) == 0
ATTACKS["pivot_root"] = lambda _at: call("pivot_root", b".", b".") == 0
ATTACKS["chroot"] = lambda _at: call("chroot", b".") == 0
ATTACKS["fsopen"] = lambda _at: call("fsopen", b"tmpfs", 0)
ATTACKS["open_tree"] = lambda _at: call("open_tree", -100, b"/", 1)
DESTRUCTIVE.update({"mount_tmpfs", "bind_the_root", "umount_proc", "umount_scratch", "remount_writable", "pivot_root",
                "chroot", "fsopen", "open_tree"})  # fmt: skip


@attack
def regain_capabilities(at: dict[str, Any]) -> object:
    call("capset", ctypes.create_string_buffer(b"\x22\x05\x08\x20\0\0\0\0", 8),
         ctypes.create_string_buffer(b"\xff\xff\xff\xff\xff\xff\xff\xff" + bytes(16)))  # fmt: skip
    return "all"


@attack
def any_capability(at: dict[str, Any]) -> object:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return [line for line in status.splitlines() if line.startswith(("CapEff", "CapPrm")) and int(line.split()[1], 16)]


@attack
def execute_setuid_program(at: dict[str, Any]) -> object:
    """It keeps this user: PR_SET_NO_NEW_PRIVS."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return "NoNewPrivs:\t0" in status


# Programs of its own.


@attack
def execute_own_file(at: dict[str, Any]) -> object:
    held = os.open("program", os.O_CREAT | os.O_WRONLY, 0o700)
    os.write(held, Path("/bin/true").read_bytes())
    os.close(held)
    return _spawned("./program")


@attack
def execute_from_memory(at: dict[str, Any]) -> object:
    held = call("memfd_create", b"program", 0)
    os.write(held, Path("/bin/true").read_bytes())
    return _spawned(f"/proc/self/fd/{held}")


def _spawned(path: str) -> object:
    pid = os.fork()
    if pid == 0:
        try:
            os.execv(path, [path])  # noqa: S606
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@attack
def call_by_other_numbers(at: dict[str, Any]) -> object:
    """The x32 way to name the same calls."""
    return X86 and LIBC.syscall(ctypes.c_long(0x4000_0000 | 41), 1, 1, 0) >= 0


@attack
def call_as_another_architecture(at: dict[str, Any]) -> object:
    """`int 0x80` with the number of i386's socket(AF_UNIX, SOCK_STREAM, 0)."""
    if not X86:
        return None
    code = b"\x53\xb8\x67\x01\x00\x00\xbb\x01\x00\x00\x00\xb9\x01\x00\x00\x00\x31\xd2\xcd\x80\x5b\xc3"
    memory = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
    memory.write(code)
    made = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    return made() >= 0
