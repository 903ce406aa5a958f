"""What a worker takes while it does nothing: its processes, their memory, and how long it takes to listen.

    make bench B=worker_memory

Memory is PSS: a page that several processes share counts once. It is read when the worker polls and all zygotes have
come up, before any run, at two numbers of slots: their difference is what a slot costs.
"""

import os
import statistics
import time
from pathlib import Path

from bench.worker_throughput import a_queue, a_worker, prepare
from dpp_project.processes import process_tree

SLOTS = (4, 16)
STARTS = 3
STILL_SECONDS = 2.0
LATENCY_MS = 8.0


def pss_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1_024 for line in lines if line.startswith("Pss:")), 0.0)


def name(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "gone"
    return "box" if "runs.box" in command else "worker"


def the_worker() -> int:
    """The child of this bench that is one."""
    return next(
        pid for pid in process_tree.child_processes(os.getpid()) if "celery" in Path(f"/proc/{pid}/cmdline").read_text()
    )


def settled(pid: int) -> list[int]:
    """The worker's processes, once their number and memory stand still."""
    seen, since = (0, 0.0), time.monotonic()
    while time.monotonic() - since < STILL_SECONDS:
        tree = process_tree.process_tree_of(pid)
        now = (len(tree), round(sum(pss_mb(one) for one in tree)))
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.2)
    return process_tree.process_tree_of(pid)


def main() -> None:
    prepare()
    for slots in SLOTS:
        starts = []
        for at in range(STARTS):
            with a_queue(LATENCY_MS) as queue:
                begun = time.monotonic()
                with a_worker(queue, concurrency=slots):
                    starts.append(time.monotonic() - begun)
                    if at == 0:
                        tree = settled(the_worker())
                        parts: dict[str, float] = {}
                        for pid in tree:
                            parts[name(pid)] = parts.get(name(pid), 0.0) + pss_mb(pid)
                        said = ", ".join(f"{part} {taken:.0f}" for part, taken in sorted(parts.items()))
        print(
            f"{slots:3} slots: {len(tree):4} processes, {sum(parts.values()):5.0f} MB PSS ({said}),"
            f" listens after {statistics.median(starts):.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
