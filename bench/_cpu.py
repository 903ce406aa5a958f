"""CPU time by who used it, of the processes that a bench and its services are."""

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_STAND_INS: Final = {"s3 stand-in", "sqs stand-in"}
"""They do what AWS does elsewhere."""
_PARTS: Final = (
    ("fakesqs", "sqs stand-in"),
    ("aws_server", "s3 stand-in"),
    ("postgres", "postgres"),
    ("valkey-server", "redis"),
    ("runs.box", "box"),
    ("celery", "worker"),
)


@dataclass(frozen=True)
class _Process:
    parent: int
    command: str
    own_ms: float
    children_ms: float


Spent = dict[tuple[str, int], float]


def by_part() -> Spent:
    """Milliseconds so far of each process of the bench and its services."""
    found = _processes()
    children = defaultdict(list)
    for pid, process in found.items():
        children[process.parent].append(pid)
    spent: Spent = {}
    waiting = [_root(found)]
    while waiting:
        pid = waiting.pop()
        waiting += children[pid]
        if pid in found and pid != os.getpid():
            part = next((part for word, part in _PARTS if word in found[pid].command), "other")
            # A job of the box is over too soon to be met: its zygote, which waited for it, has its time.
            spent[part, pid] = found[pid].own_ms + (found[pid].children_ms if part == "box" else 0.0)
    return spent


def with_children_ms(pid: int) -> float:
    """Of one process, and of those it has waited for."""
    process = _processes()[pid]
    return process.own_ms + process.children_ms


def between(before: Spent, after: Spent) -> dict[str, float]:
    used: dict[str, float] = defaultdict(float)
    for (part, pid), spent in after.items():
        used[part] += spent - before.get((part, pid), 0.0)
    return used


def ours(used: Mapping[str, float]) -> float:
    """Without what stands in for a service on another machine."""
    return sum(spent for part, spent in used.items() if part not in _STAND_INS)


def _root(found: Mapping[int, _Process]) -> int:
    """The process that started the bench and its services, be there a shell between."""
    pid = os.getppid()
    while pid in found and "dpp_project.devstack" not in found[pid].command:
        pid = found[pid].parent
    return pid if pid in found else os.getppid()


def _processes() -> dict[int, _Process]:
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
            after_name = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        user, system, children_user, children_system = (int(ticks) / _TICKS * 1_000 for ticks in after_name[11:15])
        found[int(folder.name)] = _Process(int(after_name[1]), command, user + system, children_user + children_system)
    return found
