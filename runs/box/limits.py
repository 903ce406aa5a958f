"""What the kernel holds a pack process to, whatever its code does."""

import contextlib
import os
import resource
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from dpp_project.processes import child_limits, process_tree
from runs.box.wire import MEBIBYTE

ALARM_GRACE_SECONDS: Final = 0.5
"""The zygote kills at the deadline; the kernel's alarm is for a zygote that cannot."""
DISK_BYTES_MAX: Final = 128 * MEBIBYTE
"""All files of one run together, its shared memory among them; in memory where it has a file system of its own."""
FILES_MAX: Final = 1_000
NICE: Final = 10
OPEN_FILES_MAX: Final = 256
PROCESSES_MAX: Final = 128
ALL_PROCESSES_MAX: Final = 4_096
SIGNALS_MAX: Final = 4_096
THREAD_STACK_BYTES: Final = 2 * MEBIBYTE
"""Thirty threads with the usual 8 MiB would be a quarter of a gigabyte of nothing."""
ADDRESS_SPACE_FACTOR: Final = 8
_CPUS: Final = os.cpu_count() or 1


@dataclass(frozen=True)
class Limits:
    """Of one pack process. `deadline` is on time.monotonic()'s scale, which processes of one machine share."""

    deadline: float
    memory_bytes: int
    """Beyond what the zygote's own memory, which each pack process starts with, takes."""

    def document(self) -> dict[str, Any]:
        return asdict(self)


def impose_limits(limits: Limits, own: process_tree.MemoryUse) -> None:
    """For good: hard limits, and none can be lifted by the pack's code or its children. `own` is the zygote's memory.

    RLIMIT_DATA is the memory limit: private writable memory, without the address space that allocators and thread
    stacks only reserve. RLIMIT_AS, which counts all of that, is the net behind it. RLIMIT_NPROC counts all processes of
    the user in its user namespace: a wall far behind the zygote's count of one run's.
    """
    seconds_left = max(0.01, limits.deadline - time.monotonic())
    signal.setitimer(signal.ITIMER_REAL, seconds_left + ALARM_GRACE_SECONDS)
    os.nice(NICE)
    cpu_seconds = int(seconds_left + 1) * _CPUS + 1
    child_limits.lower_limit(resource.RLIMIT_CPU, cpu_seconds)
    child_limits.lower_limit(resource.RLIMIT_NOFILE, OPEN_FILES_MAX)
    child_limits.lower_limit(resource.RLIMIT_FSIZE, DISK_BYTES_MAX)
    if sys.platform == "linux":
        child_limits.lower_limit(resource.RLIMIT_NPROC, ALL_PROCESSES_MAX)
        child_limits.lower_memory(limits.memory_bytes, above=own.data)
        child_limits.lower_limit(resource.RLIMIT_AS, own.mapped + ADDRESS_SPACE_FACTOR * limits.memory_bytes)
    threading.stack_size(THREAD_STACK_BYTES)


def impose_limits_on_box() -> None:
    """On the nursery, and by inheritance on every process of the box."""
    child_limits.lower_limit(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":
        child_limits.lower_limit(resource.RLIMIT_MEMLOCK, 0)
        child_limits.lower_limit(resource.RLIMIT_MSGQUEUE, 0)
        child_limits.lower_limit(resource.RLIMIT_SIGPENDING, SIGNALS_MAX)
        _offer_to_the_oom_killer()


def _offer_to_the_oom_killer() -> None:
    """Where the machine itself runs out, a pack goes before a worker: of the box's processes the largest."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800", encoding="ascii")
