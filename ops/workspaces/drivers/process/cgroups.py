"""Limits of memory and of processes by control groups, as root where they are mounted; otherwise by rlimits.

Where the cores can be shared out as well, all workspaces together count as one service of this host, and each of them
as one of these: without, a tenant with a thousand processes had a thousand shares.

A group of ours lies below the root of the hierarchy, not below our own: it outlives the process that made it.
"""

import contextlib
import hashlib
import os
import resource
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ops.workspaces.drivers.base import WorkspaceLimits

ROOT: Final = Path("/sys/fs/cgroup")
PARENT: Final = "dpp-workspaces"
_ALSO: Final = "cpu"
"""Joined where it is there; its weights stay as the kernel sets them."""
LEFTOVER_SECONDS: Final = 3_600
OURS_TOO: Final = 4
"""Processes of the init, of keepers, and one that writes a file."""
REMOVE_SECONDS: Final = 2.0


def name_of(root: Path, name: str) -> str:
    """A host may hold several folders of workspaces; their groups lie side by side."""
    return f"{_prefix(root)}{name}"


def _prefix(root: Path) -> str:
    return hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:12] + "."


def remove_leftovers(root: Path, *, known: Iterable[str]) -> None:
    """Groups whose maker died before it wrote a record."""
    kept = {name_of(root, name) for name in known}
    for parent in (ROOT / PARENT, *(ROOT / controller / PARENT for controller in ("memory", "pids", _ALSO))):
        for group in parent.glob(f"{_prefix(root)}*"):
            with contextlib.suppress(OSError):
                if group.name not in kept and time.time() - group.stat().st_mtime > LEFTOVER_SECONDS:
                    group.rmdir()


def make_cgroups(name: str, limits: WorkspaceLimits) -> tuple[str, ...]:
    """The groups of a workspace, empty and limited; () where there are none to be had."""
    if os.geteuid() != 0 or not (made := _folders(name)):
        return ()
    for folder in made:
        folder.mkdir(exist_ok=True)
        for file, value in _settings(limits).items():
            if (folder / file).exists():
                (folder / file).write_text(value, encoding="ascii")
    return tuple(map(str, made))


def remove_cgroups(groups: tuple[str, ...]) -> None:
    """What lives in them is ours, whatever a record says, and is killed; the kernel takes a moment to see it."""
    end = time.monotonic() + REMOVE_SECONDS
    for group in groups:
        while Path(group).exists():
            try:
                Path(group).rmdir()
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                _kill_all(Path(group))
                time.sleep(0.005)


def _kill_all(group: Path) -> None:
    with contextlib.suppress(OSError):  # one that just ended, or the group with it
        for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
            os.kill(int(pid), signal.SIGKILL)


def killed_for_memory(groups: tuple[str, ...]) -> bool:
    for group in groups:
        for file in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError, ValueError):
                for line in (Path(group) / file).read_text(encoding="ascii").splitlines():
                    word, _, value = line.partition(" ")
                    if word == "oom_kill" and int(value) > 0:
                        return True
    return False


def rlimits_of_workspace(limits: WorkspaceLimits, *, grouped: bool) -> list[tuple[int, int]]:
    """Of each process inside. Counted by the kernel in the workspace's own user namespace, so per workspace."""
    found = [(resource.RLIMIT_CORE, 0)]
    if not grouped and limits.memory_mb is not None:
        found.append((resource.RLIMIT_AS, limits.memory_mb * 1_000_000))
    if not grouped and limits.processes is not None:
        found.append((resource.RLIMIT_NPROC, limits.processes + OURS_TOO))
    return found


def _settings(limits: WorkspaceLimits) -> dict[str, str]:
    found: dict[str, str] = {}
    if limits.memory_mb is not None:
        size = str(limits.memory_mb * 1_000_000)
        found |= {"memory.limit_in_bytes": size, "memory.memsw.limit_in_bytes": size}
        found |= {"memory.max": size, "memory.swap.max": "0"}
    if limits.processes is not None:
        found["pids.max"] = str(limits.processes + OURS_TOO)
    return found


def _folders(name: str) -> list[Path]:
    if (ROOT / "cgroup.controllers").exists():
        with contextlib.suppress(OSError):
            (ROOT / PARENT).mkdir(exist_ok=True)
            for folder in (ROOT, ROOT / PARENT):
                control = folder / "cgroup.subtree_control"
                control.write_text("+memory +pids", encoding="ascii")
                with contextlib.suppress(OSError):
                    control.write_text(f"+{_ALSO}", encoding="ascii")
            return [ROOT / PARENT / name]
        return []
    parents = [ROOT / controller / PARENT for controller in ("memory", "pids")]
    if not all((parent.parent / "cgroup.procs").exists() for parent in parents):
        return []
    for parent in parents:
        try:
            parent.mkdir(exist_ok=True)
        except OSError:
            return []
    if (ROOT / _ALSO / "cgroup.procs").exists():
        with contextlib.suppress(OSError):
            (ROOT / _ALSO / PARENT).mkdir(exist_ok=True)
            parents.append(ROOT / _ALSO / PARENT)
    return [parent / name for parent in parents]
