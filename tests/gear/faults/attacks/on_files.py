"""Files that are nobody's business, read and changed."""

import ctypes
import os
import struct
from pathlib import Path
from typing import Any

from runs.box import kernel
from tests.gear.faults.attacks.table import (
    LEFT,
    LIBC,
    attack,
    call,
    did,
    each,
    read,
)

each("state env home code", lambda what: lambda at: read(at[what]), prefix="read_")
each("state env", lambda what: lambda at: did(os.chmod, at[what], 0o777), prefix="chmod_")
each("state env", lambda what: lambda at: did(os.utime, at[what], (1, 1)), prefix="utime_")
each("state env", lambda what: lambda at: did(os.truncate, at[what], 0), prefix="truncate_", harmful=True)
each("state env", lambda what: lambda at: did(os.unlink, at[what]), prefix="unlink_", harmful=True)
each("state env", lambda what: lambda at: did(os.link, at[what], "linked"), prefix="hardlink_")
each("state env", lambda what: lambda at: did(os.rename, at[what], "moved"), prefix="rename_", harmful=True)
each("state", lambda what: lambda at: did(os.setxattr, at[what], "user.x", b"1"), prefix="setxattr_")
each(
    "folder /tmp /var/tmp /dev/shm /run",
    lambda what: lambda at: _write_into(at.get(what, what), at),
    prefix="write_into_",
)


def _write_into(folder: str, at: dict[str, Any]) -> object:
    path = f"{folder}/{LEFT.format(**at)}{os.getpid()}"
    Path(path).write_bytes(b"x")
    where = Path(path).resolve()
    return None if Path.cwd().resolve().parts[:3] == where.parts[:3] == ("/", "run", "job") else str(where)


@attack
def list_state_folder(at: dict[str, Any]) -> object:
    return os.listdir(at["folder"])  # noqa: PTH208


@attack
def list_scratch_of_others(at: dict[str, Any]) -> object:
    above = Path.cwd().parent
    return [name for name in os.listdir(above) if name != Path.cwd().name]  # noqa: PTH208


@attack
def list_the_root(at: dict[str, Any]) -> object:
    return {"work", "home", "root", "var"} & set(os.listdir("/")) and read(at["home"])  # noqa: PTH208


@attack
def read_the_old_root(at: dict[str, Any]) -> object:
    """Where a new root was made, what was there before."""
    return [name for name in os.listdir("/") if name.startswith(".")] and read("/.old/etc/passwd")  # noqa: PTH208


@attack
def make_own_file_setuid(at: dict[str, Any]) -> object:
    Path("own").write_bytes(b"x")
    return did(os.chmod, "own", 0o6755)


@attack
def read_through_a_symlink(at: dict[str, Any]) -> object:
    os.symlink(at["state"], "link")  # noqa: PTH211
    return read("link")


@attack
def make_folder_outside(at: dict[str, Any]) -> object:
    return did(os.mkdir, f"{at['folder']}/made")


@attack
def make_fifo_outside(at: dict[str, Any]) -> object:
    return did(os.mkfifo, f"{at['folder']}/fifo")


@attack
def change_our_code(at: dict[str, Any]) -> object:
    return did(os.close, os.open(kernel.__file__, os.O_WRONLY))


@attack
def fchmod_our_code(at: dict[str, Any]) -> object:
    held = os.open(kernel.__file__, os.O_RDONLY)
    return did(os.fchmod, held, 0o644)


@attack
def open_by_handle(at: dict[str, Any]) -> object:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    number = ctypes.c_int()
    call("name_to_handle_at", -100, str(at["state"]).encode(), handle, ctypes.byref(number), 0)
    return "a handle"


@attack
def watch_state_folder(at: dict[str, Any]) -> object:
    return LIBC.inotify_add_watch(LIBC.inotify_init1(0), str(at["folder"]).encode(), 0xFFF) >= 0


each("/etc/shadow /etc/hostname /root/.bashrc", lambda path: lambda _at: read(path), prefix="read_")
each("sda vda kmsg mem tty ptmx zero full fuse kvm", lambda name: lambda _at: _read_device(name), prefix="device_")


def _read_device(name: str) -> object:
    return did(os.close, os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))


@attack
def lower_oom_score(at: dict[str, Any]) -> object:
    return Path("/proc/self/oom_score_adj").write_text("0", encoding="ascii")


@attack
def write_proc_sys(at: dict[str, Any]) -> object:
    return did(os.close, os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))


@attack
def write_sys(at: dict[str, Any]) -> object:
    return did(os.close, os.open("/sys/kernel/mm/ksm/run", os.O_WRONLY))
