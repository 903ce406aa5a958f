"""How long each process takes from its command until it serves, and the processor time that it takes for it.

    make bench B=starts

The API serves when `/readyz` answers 200, the others when their first heartbeat stands in the database. The processor
time is that of the process and its children to its end, and is what other work on the machine disturbs least. Each is
the median of three, beside an interpreter that imports Django and ends, in turns.
"""

import os
import resource
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial

from bench._figures import tell
from bench._servers import REPOSITORY, Stage, stage
from dpp_project import serve

STARTS = 3
MOST_SECONDS = 120.0
PARTS = ("api", "worker", "beat", "events")


def cpu_seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def ready(port: int, _pid: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def beats(on: Stage, pid: int) -> bool:
    import psycopg

    with psycopg.connect(on.environ["DATABASE_URL"]) as postgres:
        return postgres.execute("SELECT 1 FROM process_heartbeats WHERE pid = %s", [pid]).fetchone() is not None


def measured(
    on: Stage, command: list[str], environ: dict[str, str], serves: Callable[[int], bool]
) -> tuple[float, float]:
    before, began = cpu_seconds(), time.monotonic()
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=on.environ | environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            while not serves(process.pid) and process.poll() is None:
                if time.monotonic() - began > MOST_SECONDS:
                    raise SystemExit(f"{command} does not serve")
                time.sleep(0.02)
            took = time.monotonic() - began
            if process.poll():
                raise SystemExit(f"{command} ended with {process.returncode}")
        finally:
            process.terminate()
            process.wait()
    return took, cpu_seconds() - before


def main() -> None:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ("import django", *PARTS)}
    with stage() as on:
        for turn in range(STARTS):
            imports = [sys.executable, "-c", "import django.db.models"]
            found["import django"].append(measured(on, imports, {}, lambda _pid: False))
            for at, part in enumerate(PARTS):
                port = 20_000 + os.getpid() % 10_000 + turn * 10 + at
                environ = {"DPP_API_PORT": str(port), "DPP_SERVICE": serve.SERVICE_NAMES[part]}
                serves = partial(ready, port) if part == "api" else partial(beats, on)
                found[part].append(measured(on, [sys.executable, "-m", "dpp_project.serve", part], environ, serves))
    _, unit = (statistics.median(one) for one in zip(*found["import django"], strict=True))
    for name, turns in found.items():
        took, cpu = (statistics.median(one) for one in zip(*turns, strict=True))
        tell(f"{name}: until it serves", took, "s")
        tell(f"{name}: processor time", cpu, "s")
        tell(f"{name}: processor time, of an import of Django", cpu / unit, "x")


if __name__ == "__main__":
    main()
