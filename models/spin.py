"""Runs spin on one case, and reads what its checker says. A checker that did not look everywhere has shown nothing."""

import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from models.cases import Case, Expected

HERE: Final = Path(__file__).resolve().parent
MEMORY_MEGABYTES: Final = 2_800
"""Two run at a time, in 6 GB."""
DEPTH: Final = 20_000
LIMIT_SECONDS: Final = 600
HASH_BITS: Final = {True: 20, False: 24}
SAYS_NOTHING: Final = re.compile(
    r"IF|DO|sub-sequence|\.\(goto\)|else|\(1\)|assert.*"
    r"|(seen|plan|taken|answer|won|known|credit|counted_.*|whole|result_lost|r|turns|locked|found"
    r"|day|told|revision|did|held|i|unknown|same_rev\[[01]\]|same_look\[[01]\]|saw_.*) = 0"
)
"""In a trail: spin's own steps, and a process that begins anew."""
OUT_OF_NAMES: Final = "assertion violated 0 "
"""`assert(false)`: a case that needs more than the model has has shown nothing, though it fails."""
UNLOOKED: Final = (
    "max search depth too small",
    "Search not completed",
    "out of memory",
    "reached -DMEMLIM bound",
    "VECTORSZ",
    "hash table full",
)


@dataclass(frozen=True, slots=True)
class Found:
    """What the checker said. `error` is its first complaint, if any; `incomplete` why it did not look everywhere."""

    states: int
    depth: int
    errors: int
    error: str
    incomplete: str
    unreached: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Result:
    case: Case
    found: Found
    seconds: float

    @property
    def wrong(self) -> str | None:
        """Why this is not what was expected, or None."""
        return fault(self.case, self.found)


def fault(case: Case, found: Found) -> str | None:
    if case.expected is Expected.HOLDS:
        if found.errors:
            return found.error or f"{found.errors} errors"
        if found.incomplete:
            return found.incomplete
        return None if found.states else "no states"
    wanted = "assertion violated" if case.expected is Expected.VIOLATES else "acceptance cycle"
    if found.error.startswith(OUT_OF_NAMES):
        return "the model has too few volumes or archives for this case"
    if not found.errors:
        return found.incomplete or "it holds, so the check proves nothing"
    return None if wanted in found.error else f"wanted: {wanted}; found: {found.error or 'no words'}"


def read(said: str) -> Found:
    """The checker's output. Without its last line of figures it has not finished."""
    figures = re.search(r"depth reached (\d+), errors: (\d+)", said)
    stored = re.search(r"^\s*([0-9.e+]+) states, stored", said, re.MULTILINE)
    complaint = re.search(r"^pan:\d+: (.*)$", said, re.MULTILINE)
    if figures is None or stored is None:
        return Found(0, 0, 0, "", f"the checker did not finish: {said[-200:].strip()}")
    errors = int(figures[2])
    # A search that stops at its first error is not complete, and need not be.
    incomplete = "" if errors else next((sign for sign in UNLOOKED if sign in said), "")
    return Found(
        states=int(float(stored[1])),
        depth=int(figures[1]),
        errors=errors,
        error=complaint[1] if complaint else "",
        incomplete=incomplete,
        unreached=_unreached(said),
    )


def _unreached(said: str) -> frozenset[str]:
    """Statements that no order of steps ever came to, as `process line: statement`."""
    found: set[str] = set()
    process = ""
    for line in said.splitlines():
        if heading := re.match(r"unreached in (?:proctype|init|claim) (\S+)", line):
            process = heading[1]
        elif process and (place := re.match(r'\t\S*?(\w+\.pml:\d+), state \d+, "(.*)"$', line)):
            found.add(f"{process} {place[1]}: {place[2]}")
    return frozenset(found)


def check(case: Case) -> Result:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dpp-model-") as folder:
        found = _found_by_spin(case, Path(folder))
    return Result(case, found, time.monotonic() - started)


def trail(case: Case) -> list[str]:
    """The fewest steps that lead to the case's error, one line each, the error last; none if it has no error."""
    with tempfile.TemporaryDirectory(prefix="dpp-model-") as folder:
        at = Path(folder)
        found = _found_by_spin(case, at, shortest=True)
        if not found.errors:
            return []
        steps = _run(["spin", "-t", "-p", "-k", str(next(at.glob("*.trail"))), *_flags(case), str(_source(case))], at)
    lines = []
    for line in steps.splitlines():
        step = re.match(r"\s*\d+:\s+proc\s+(\d+) \((\w+)[^)]*\) \S*?(\w+\.pml):(\d+) \(state \d+\)\s+\[(.*)\]$", line)
        if step and not SAYS_NOTHING.fullmatch(step[5]):
            lines.append(f"{step[1]:>2} {step[2]:<12} {step[3] + ':' + step[4]:<16} {step[5]}")
    return [*lines, found.error]


def _source(case: Case) -> Path:
    return HERE / f"{case.model}.pml"


def _flags(case: Case) -> list[str]:
    live = ["-DLIVENESS"] if case.progress else []
    return [*(f"-D{flag}" for flag in case.flags), *live]


def _found_by_spin(case: Case, at: Path, *, shortest: bool = False) -> Found:
    _run(["spin", "-a", *_flags(case), str(_source(case))], at)
    compiler = [
        "gcc",
        "-O0" if case.small else "-O2",
        "-w",
        "-DCOLLAPSE",
        "-DVECTORSZ=2048",
        f"-DMEMLIM={MEMORY_MEGABYTES}",
    ]
    kind = ["-DNFAIR=3"] if case.progress else ["-DSAFETY", "-DNOFAIR"]
    order = [*(["-DREVERSE"] if case.reverse else []), *(["-DREACH"] if shortest else [])]
    _run([*compiler, *kind, *order, "-o", "pan", "pan.c"], at)
    search = ["./pan", f"-m{DEPTH}", f"-w{HASH_BITS[case.small]}"]
    if shortest:
        search.append("-i")
    if case.progress:
        search += ["-a", "-f", "-N", case.progress]
    try:
        return read(_run(search, at, may_fail=True))
    except subprocess.TimeoutExpired:
        return Found(0, 0, 0, "", f"not finished in {LIMIT_SECONDS} s")


def _run(command: list[str], at: Path, *, may_fail: bool = False) -> str:
    done = subprocess.run(  # noqa: S603  programs and flags that stand in this folder
        command, cwd=at, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
    )
    if done.returncode and not may_fail:
        raise RuntimeError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-2_000:]}")
    return done.stdout + done.stderr
