"""Looking at processes through /proc, and ending them. Where there is no /proc, nothing is found."""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_PROC: Final = Path("/proc")
_CHUNK: Final = 65_536


def child_processes(pid: int) -> list[int]:
    """Living and dead children of all threads."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  a watch that runs ten times a second
            found += [int(child) for child in _proc_file_content(f"/proc/{pid}/task/{thread}/children").split()]
    except OSError:
        return _children_by_scan(pid) if Path(f"/proc/{pid}").exists() else found
    return found


def _proc_file_content(path: str) -> bytes:
    """Without a file object: each job does this once, and each page that it touches is copied for it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        found = bytearray()
        while some := os.read(descriptor, _CHUNK):
            found += some
        return bytes(found)
    finally:
        os.close(descriptor)


def _children_by_scan(pid: int) -> list[int]:
    """For a kernel without CONFIG_PROC_CHILDREN, or a thread that ended between two reads."""
    found = []
    for entry in _PROC.glob("[0-9]*"):
        try:
            after_name = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[1]) == pid:
            found.append(int(entry.name))
    return found


def process_tree_of(pid: int) -> list[int]:
    """The process and all its descendants."""
    found, unseen = [pid], [pid]
    while unseen:
        more = [child for parent in unseen for child in child_processes(parent)]
        found += more
        unseen = more
    return found


@dataclass(frozen=True)
class MemoryUse:
    """Of one process, in bytes. `private` is resident and belongs to no file."""

    mapped: int
    private: int
    data: int


def process_memory(pid: int | str = "self") -> MemoryUse:
    try:
        size, resident, shared, _, _, data, _ = (
            int(pages) * _PAGE for pages in _proc_file_content(f"/proc/{pid}/statm").split()
        )
    except OSError:
        return MemoryUse(0, 0, 0)
    return MemoryUse(mapped=size, private=resident - shared, data=data)


def kill_process(pid: int) -> None:
    """The process, and its group where it leads one."""
    for end in (os.killpg, os.kill):
        try:
            end(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def kill_group(leader: int) -> None:
    """Those that are left of the group that it led."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill_tree(pid: int) -> None:
    for member in reversed(process_tree_of(pid)):
        kill_process(member)
