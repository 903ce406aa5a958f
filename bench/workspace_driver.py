"""What a workspace costs as processes of this machine: its start to the first answer, an exec, a list, an end.

    make bench B=workspace_driver

Beside it, within the same run: a bare bubblewrap that starts the system's Python, and a bare fork and exec of true. All
volumes are empty; those of the list have a running workspace each.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ops.workspaces.drivers.base import WorkspaceSpec
from ops.workspaces.drivers.process.driver import ProcessDriver
from ops.workspaces.drivers.process.sandbox import SYSTEM_PYTHON, why_not
from tests.gear.builders.workspace_drivers import Inhabited, Tenancy, process_driver

STARTS: Final = 100
EXECS: Final = 200
LISTED: Final = 20
TARGET_START_P95_MS: Final = 150


def milliseconds(what: Callable[[], object], times: int) -> list[float]:
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        what()
        found.append((time.perf_counter() - begun) * 1_000)
    return sorted(found)


def say(name: str, found: list[float]) -> None:
    print(f"{name:38s} p50 {statistics.median(found):7.2f} ms   p95 {found[int(len(found) * 0.95)]:7.2f} ms")


def a_bare_bubblewrap() -> None:
    subprocess.run(
        ["bwrap", "--unshare-all", "--ro-bind", "/", "/", SYSTEM_PYTHON, "-I", "-S", "-c", "pass"], check=True
    )


def main() -> int:
    if (why := why_not()) is not None:
        print(why)
        return 0
    with process_driver() as driver:
        tenancy = Tenancy(driver)
        volumes = [(label, tenancy.volume(label)) for label in (tenancy.label() for _ in range(STARTS))]
        made: list[Inhabited] = []

        def start() -> None:
            label, volume = volumes[len(made)]
            made.append(tenancy.inhabited(WorkspaceSpec(), label=label, volume=volume))

        say("a bare bubblewrap with a Python", milliseconds(a_bare_bubblewrap, 30))
        say("start, to the init's first answer", starts := milliseconds(start, LISTED))
        say(f"list of {LISTED} that run", milliseconds(driver.list, 50))
        rest = milliseconds(start, STARTS - LISTED)
        starts = sorted(starts + rest)
        say(f"start, {LISTED} to {STARTS} beside it", rest)
        say(f"list of {STARTS} that run", milliseconds(driver.list, 50))
        say("exec of true", milliseconds(lambda: made[0].run("/bin/true"), EXECS))
        say("a fork and exec of true", milliseconds(lambda: subprocess.run(["/bin/true"], check=True), EXECS))
        say("end, without grace", milliseconds(lambda: made.pop().remove(), STARTS - 1))
        print(f"resident memory of an init {_resident_kb(driver, made[0]):,} KB, its keepers beside it")
        p95 = starts[int(len(starts) * 0.95)]
        print(f"target: start p95 at most {TARGET_START_P95_MS} ms; ours is {p95:.1f} on {os.cpu_count()} cores")
    return 0


def _resident_kb(driver: ProcessDriver, inhabited: Inhabited) -> int:
    """Its own share, as the kernel splits what is mapped by several."""
    record = driver._containers.read(inhabited.name)  # noqa: SLF001  no interface tells pids
    assert record is not None
    rollup = Path(f"/proc/{record.pid}/smaps_rollup").read_text(encoding="ascii")
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))


if __name__ == "__main__":
    sys.exit(main())
