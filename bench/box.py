"""What the box costs: a pack that does nothing, from start() to the end of its process tree, against a bare fork.

make bench B=box

CPU is of the zygote and its jobs, and of both processes of a bare fork, in turns; `alone` is without namespaces.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from bench import _cpu
from dpp_project.processes import process_tree
from runs.box.box import Box
from tests.gear.builders.box import MODULE, a_job, begin

RUNS: Final = 300
TURNS: Final = 5
WARM: Final = 20
ALONE: Final = [sys.executable, "-W", "ignore", "-m", "tests.gear.faults.without_namespaces"]
MODES: Final[dict[str, list[str]]] = {"fork": [], "namespaces": [], "alone": ALONE}


def milliseconds(what: Callable[[], object], times: int = RUNS) -> list[float]:
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        what()
        found.append((time.perf_counter() - begun) * 1_000)
    return sorted(found)


def say(name: str, found: list[float]) -> None:
    print(f"{name:34s} p50 {statistics.median(found):6.2f} ms   p99 {found[int(len(found) * 0.99)]:6.2f} ms")


def a_fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def cpu_of_a_run(box: Box) -> float:
    nursery = box.nursery_pid()
    assert nursery is not None
    (zygote,) = process_tree.child_processes(nursery)
    return _cpu_ms(zygote, lambda: begin(box, a_job("FREE")).wait())


def _cpu_ms(pid: int, what: Callable[[], object]) -> float:
    for _ in range(WARM):
        what()
    before = _cpu.with_children_ms(pid)
    for _ in range(RUNS):
        what()
    return (_cpu.with_children_ms(pid) - before) / RUNS


def say_cpu_of(mode: str) -> None:
    """In a process of its own, which cannot have its namespaces back."""
    if mode == "fork":
        print(_cpu_ms(os.getpid(), a_fork))
        return
    box = Box([MODULE])
    begin(box, a_job("FREE")).wait()
    print(cpu_of_a_run(box))
    box.close()


def compare_cpu() -> None:
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(TURNS):
        for mode, before in MODES.items():
            command = [*before, sys.executable, "-W", "ignore", "-m", "bench.box", mode]
            ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
            found[mode].append(float(ran.stdout))
    fork = statistics.median(found["fork"])
    for mode, each in found.items():
        middle = statistics.median(each)
        spread = f"{min(each):.2f} to {max(each):.2f}"
        print(f"{'CPU of a run, ' + mode:34s} {middle:6.2f} ms   {middle / fork:4.1f} forks   {spread}")


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] in MODES:
        say_cpu_of(sys.argv[1])
        return
    compare_cpu()
    box = Box([MODULE])

    def a_run() -> None:
        begin(box, a_job("FREE")).wait()

    a_run()
    say("a bare fork of this process", milliseconds(a_fork))
    say("a run that does nothing", milliseconds(a_run))
    begun = time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: a_run(), range(RUNS)))
    print(f"{'eight at once':34s} {RUNS / (time.perf_counter() - begun):6.0f} runs/s")
    box.close()


if __name__ == "__main__":
    main()
