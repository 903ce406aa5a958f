"""What the box costs: a pack that does nothing, from start() to the end of its process tree, against a bare fork.

make bench B=box
"""

import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from runs.box.box import Box
from tests.gear.builders.box import MODULE, a_job, begin

RUNS = 300


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


def main() -> None:
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
