"""Tells a process from others that had its pid: pids are used again."""

from functools import cache
from pathlib import Path

PROC = Path("/proc")
_START_TIME = 19  # field 22 of proc_pid_stat(5), counted after the name in brackets


def process_identity_of(pid: int) -> str | None:
    """Boot, pid and start time; None when there is no such process, or no /proc to ask."""
    fields = process_stat(pid)
    if fields is None or fields[0] in {"Z", "X"}:
        return None
    return f"{_boot()}/{pid}/{fields[_START_TIME]}"


def process_stat(pid: int) -> list[str] | None:
    """The fields after the name, which may hold anything."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


@cache
def _boot() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
