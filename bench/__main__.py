"""`make bench`: figures as ratios within one run, as counts, and by the size of the tables. Nothing is asserted here.

    make bench                        the benches of the page, in a quarter of an hour on two quiet cores; all is kept
    make bench B="get submit"         some, any of bench/; printed, and kept only with KEEP=1
    make bench B=growth ARGS="--most 10000000"    what stands in ARGS goes to the bench
    make bench PATIENCE=10            each may take ten times its time on quiet cores, for a busy machine
    python -m bench --write-docs      the page and its plots from what is kept

Each bench is a process of its own with a time that it may take, and one that fails stops none of the others: the table
and the page say that it failed, and why. Kept is bench/results/latest.json; docs/performance.md is written from it.
"""

import argparse
import os
import pkgutil
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import bench
from bench import _figures, _page, _results
from bench._figures import Figure
from bench._results import Kept
from dpp_project.processes import process_tree

PATIENCE: Final = 3
"""How many times as long as on two quiet cores a bench may take, where the machine is not known to be busy."""
OTHER_SECONDS: Final = 300
"""What those may take on quiet cores that are not on the page."""
STOP_SECONDS: Final = 90.0
FAILURE_LINES: Final = 12


def names() -> list[str]:
    found = pkgutil.iter_modules(bench.__path__)
    return sorted(one.name for one in found if not one.name.startswith("_") and not one.ispkg)


def main() -> int:
    arguments, _, given_on = " ".join(sys.argv[1:]).partition(" -- ")
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("only", nargs="*", help=f"some of: {', '.join(names())}")
    parser.add_argument("--keep", action="store_true", help="keep what these benches find beside what is kept")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="times its seconds on quiet cores, for each")
    parser.add_argument("--write-docs", action="store_true", help="measure nothing, write the page")
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments.split())
    if given.one:
        return in_this_process(given.one, given_on.split())
    if given.write_docs:
        _page.write()
        return 0
    if unknown := set(given.only) - set(names()):
        parser.error(f"no bench is called {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    return measured(
        given.only or list(_page.SECTIONS), given_on, whole=not given.only, keep=given.keep, patience=given.patience
    )


def in_this_process(name: str, arguments: list[str]) -> int:
    """A stop comes as an exception, so that what the bench has started is ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    sys.argv = [f"bench.{name}", *arguments]
    runpy.run_module(f"bench.{name}", run_name="__main__")
    return 0


def measured(chosen: list[str], arguments: str, *, whole: bool, keep: bool, patience: float = PATIENCE) -> int:
    if whole:
        _results.write(_results.Results.anew())
    found: dict[str, Kept] = {}
    for name in chosen:
        print(f"== {name}", flush=True)
        found[name] = run(name, arguments, seconds=seconds_of(name) * patience)
        if whole or keep:
            _results.write(_results.read().with_one(name, found[name]))
    print(table(found), flush=True)
    if whole or keep:
        _page.write()
    return 1 if any(kept.failed for kept in found.values()) else 0


def seconds_of(name: str) -> float:
    """On two quiet cores."""
    return float(_page.SECONDS.get(name, OTHER_SECONDS))


def command_of(name: str, arguments: str) -> list[str]:
    return [sys.executable, "-m", "bench", "--one", name, *(["--", *arguments.split()] if arguments else [])]


def run(name: str, arguments: str, *, seconds: float) -> Kept:
    busy = _results.busy_cores()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        figures, log = Path(folder) / "figures", Path(folder) / "log"
        figures.touch()
        environ = os.environ | {_figures.HANDED_TO: str(figures), "PYTHONUNBUFFERED": "1"}
        with (
            log.open("wb") as errors,
            subprocess.Popen(command_of(name, arguments), env=environ, stderr=errors) as process,
        ):
            failed = ended(process, seconds)
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if failed:
            print("\n".join(said[-FAILURE_LINES:]), file=sys.stderr, flush=True)
            failed = f"{failed}: {said[-1]}" if said else failed
        return Kept.now(_figures.read(figures.read_text()), time.monotonic() - began, busy, failed)


def ended(process: "subprocess.Popen[bytes]", seconds: float) -> str | None:
    """Why it failed, or None. What does not stop when it is asked to is killed with all it started."""
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process_tree.kill_tree(process.pid)
            process.wait()
        return f"not done after {seconds:.0f} s"
    return f"ended with {code}" if code else None


def table(found: dict[str, Kept]) -> str:
    lines = ["", f"{'bench':18s} figure"]
    for name, kept in found.items():
        lines += [f"{name:18s} {figure}" for figure in kept.figures]
        lines += [f"{name:18s} FAILED: {kept.failed}"] if kept.failed else []
    missed = [figure for kept in found.values() for figure in kept.figures if is_missed(figure)]
    told = sum(len(kept.figures) for kept in found.values())
    took = sum(kept.seconds for kept in found.values())
    return "\n".join([*lines, f"{told} figures, {len(missed)} targets missed, {took:.0f} s"])


def is_missed(figure: Figure) -> bool:
    return figure.is_met is False


if __name__ == "__main__":
    sys.exit(main())
