"""What the kernel holds a pack process to, whatever its code does."""

import contextlib
import os
import resource
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from dpp_project.processes import child_limits, process_tree
from runs.box import network
from runs.box.wire import MEBIBYTE

ALARM_GRACE_SECONDS: Final = 0.5
"""The zygote kills at the deadline; the kernel's alarm is for a zygote that cannot."""
FILE_BYTES_MAX: Final = 256 * MEBIBYTE
OPEN_FILES_MAX: Final = 256
PROCESSES_MAX: Final = 128
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


def impose(limits: Limits) -> None:
    """For good: hard limits, and none can be lifted by the pack's code or its children.

    RLIMIT_DATA is the memory limit: private writable memory, without the address space that allocators and thread
    stacks only reserve. RLIMIT_AS, which counts all of that, is the net behind it.
    """
    seconds_left = max(0.01, limits.deadline - time.monotonic())
    signal.setitimer(signal.ITIMER_REAL, seconds_left + ALARM_GRACE_SECONDS)
    cpu_seconds = int(seconds_left + 1) * _CPUS + 1
    own = process_tree.memory()
    child_limits.lower(resource.RLIMIT_CPU, cpu_seconds)
    child_limits.lower(resource.RLIMIT_CORE, 0)
    child_limits.lower(resource.RLIMIT_NOFILE, OPEN_FILES_MAX)
    child_limits.lower(resource.RLIMIT_FSIZE, FILE_BYTES_MAX)
    if sys.platform == "linux":
        child_limits.lower_memory(limits.memory_bytes)
        child_limits.lower(resource.RLIMIT_AS, own.mapped + ADDRESS_SPACE_FACTOR * limits.memory_bytes)
        _offer_to_the_oom_killer()
    threading.stack_size(THREAD_STACK_BYTES)
    if network.can_be_cut():
        network.cut()


def _offer_to_the_oom_killer() -> None:
    """Where the machine itself runs out, a pack goes before a worker."""
    with contextlib.suppress(OSError):
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        try:
            os.write(score, b"800")
        finally:
            os.close(score)
