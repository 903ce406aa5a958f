"""Finds processes and ends them: pids are reused, so a pid alone is never a reason to send a signal."""

import contextlib
import os
import signal
import time
from pathlib import Path

from dpp_project.processes.identity import PROC, process_identity_of, process_stat


def child_pids(pid: int) -> list[int]:
    """Pids whose parent this is."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            fields = process_stat(int(entry.name))
            if fields is not None and int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def pids_carrying(variable: str, value: str) -> list[int]:
    """Pids whose environment at their start had this variable with this value; ourselves left out."""
    others = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit() and int(entry.name) != os.getpid())
    return [pid for pid in others if pid_carries(pid, variable, value)]


def pid_carries(pid: int, variable: str, value: str) -> bool:
    try:
        return f"{variable}={value}".encode() in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def living_in(folder: Path, *, program: Path) -> list[int]:
    """Pids that run this program with this working folder; a shell opened there is none of them."""
    wanted, executable = str(folder.resolve()), str(program.resolve())
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if str((entry / "cwd").readlink()) == wanted and str((entry / "exe").readlink()) == executable:
                    found.append(int(entry.name))
    return found


def kill_group(pid: int) -> None:
    """Kill a process and its group. Safe only while its leader exists, also as a zombie: its pid is not reused yet."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def wait_gone(known: str, *, seconds: float) -> bool:
    """Wait until the process of this identity has ended."""
    pid = int(known.split("/")[1])
    end = time.monotonic() + seconds
    while process_identity_of(pid) == known:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
