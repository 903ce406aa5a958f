"""`python -m models.check`: the run's protocol, checked in every order of steps, with everything that may go wrong.

    python -m models.check               all of it, about fifteen minutes on two cores, at most 6 GB
    python -m models.check --quick       the small cases of `make test`
    python -m models.check no-fence      some cases
    python -m models.check --trail no-fence    the steps that lead to its error
    python -m models.check --install     first install spin and gcc, where that is possible (root and apt-get)

Exit codes: 0 all is as expected; 1 something is not; 77 skipped, because a tool is missing. docs/protocol.md says what
is modelled and how to read a trail.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from models.cases import ALL, QUICK, SOUND, Case, Expected
from models.spin import HERE, Result, check, trail
from tests.proving.proofs import SKIPPED, report

TOOLS: Final = ("spin", "gcc")
AT_A_TIME: Final = 2
INSTALL_SECONDS: Final = 180
SETUP: Final = Path(__file__).resolve().parents[1] / "dpp_project" / "devstack" / "setup_model.sh"
HOW_TO_INSTALL: Final = (
    "install them (`make setup-model`; Debian, Ubuntu: sudo apt-get install spin gcc libc6-dev; macOS: brew install "
    "spin gcc) and run `python -m models.check` again"
)


def missing() -> list[str]:
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def why_skipped() -> str | None:
    """What to say where the model cannot be checked, or None where it can."""
    return f"{' and '.join(absent)} not found: {HOW_TO_INSTALL}" if (absent := missing()) else None


def install() -> None:
    """Quietly does nothing where it cannot, and gives up in time: the skip that follows says what to do."""
    with subprocess.Popen(  # noqa: S603  as written here
        ["/bin/sh", str(SETUP)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as setup:
        try:
            setup.wait(INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(setup.pid, signal.SIGKILL)  # with the apt-get that hangs


def unreached_everywhere(results: Iterable[Result]) -> list[str]:
    """Statements of the sound models that no case came to: such a statement has been checked by nobody.

    A process that a case does not start has all its statements unreached there; only where it ran does it count. One
    that several models start need come to a statement in one of them.
    """
    by_model: dict[str, list[frozenset[str]]] = {}
    for result in results:
        if result.case in SOUND:
            by_model.setdefault(result.case.model, []).append(result.found.unreached)
    dead = {model: frozenset.intersection(*unreached) for model, unreached in by_model.items()}
    lines = {
        model: {_model_statement_place(statement) for statement in statements} for model, statements in dead.items()
    }
    return sorted(
        f"{model}: {statement}"
        for model, statements in dead.items()
        for statement in statements
        if not statement.endswith(": -end-")
        and all(
            _model_statement_place(statement) in lines[other]
            for other in dead
            if _starts(other, statement.split(None, 1)[0])
        )
    )


def _model_statement_place(statement: str) -> str:
    """Process and line: what stands there names a run's number, which differs from model to model."""
    return ":".join(statement.split(":", 2)[:2])


def _starts(model: str, process: str) -> bool:
    return f"run {process}(" in (HERE / f"{model}.pml").read_text(encoding="utf-8")


def say(line: str = "") -> None:
    print(line, flush=True)  # noqa: T201  a program for a person's eyes


def _model_check_row(result: Result) -> str:
    case, found = result.case, result.found
    verdict = "as expected" if result.wrong is None else f"WRONG: {result.wrong}"
    kind = case.progress or ("assertions" if case.expected is Expected.HOLDS else "removed point")
    return (
        f"{case.name:<18} {kind:<22} {case.expected.value:<25} {found.states:>11,} {found.depth:>6} "
        f"{result.seconds:>6.1f}  {verdict:<12}  {case.shows}"
    )


def run(cases: Sequence[Case]) -> list[Result]:
    """Two at a time, in their order: the largest stand first."""
    say(f"{'case':<18} {'checked':<22} {'expected':<25} {'states':>11} {'depth':>6} {'s':>6}  {'verdict':<12}  shows")
    results = []
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for result in pool.map(check, cases):
            say(_model_check_row(result))
            results.append(result)
    return results


def judge(results: Sequence[Result], *, whole: bool) -> int:
    """The totals; the exit code."""
    wrong = [result.case.name for result in results if result.wrong is not None]
    sound = [result for result in results if result.case.expected is Expected.HOLDS]
    safety = sum(result.found.states for result in sound if result.case.progress is None)
    liveness = sum(result.found.states for result in sound if result.case.progress is not None)
    broken = len(results) - len(sound)
    say(f"{safety:,} states in safety, {liveness:,} in liveness, {broken} removed points each found")
    if whole and (dead := unreached_everywhere(results)):
        say("no case came to:\n  " + "\n  ".join(dead))
        wrong.append("unreached statements")
    report(cases=safety)
    if wrong:
        say(f"FAILED: {', '.join(wrong)}")
    return 1 if wrong else 0


def main(argv: Sequence[str] | None = None) -> int:
    named = {case.name: case for case in (*ALL, *QUICK)}
    parser = argparse.ArgumentParser(
        prog="python -m models.check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"some of: {', '.join(named)}")
    parser.add_argument("--quick", action="store_true", help="the small cases")
    parser.add_argument("--trail", metavar="CASE", choices=named, help="the steps that lead to this case's error")
    parser.add_argument("--install", action="store_true", help="install spin and gcc first, as root with apt-get")
    chosen = parser.parse_args(argv)
    if unknown := set(chosen.cases) - set(named):
        parser.error(f"there is no case called {', '.join(sorted(unknown))}")
    if chosen.install:
        install()
    if (skipped := why_skipped()) is not None:
        say(f"SKIPPED model: {skipped}")
        return SKIPPED
    if chosen.trail:
        say("\n".join(trail(named[chosen.trail])) or "it has no error")
        return 0
    started = time.monotonic()
    whole = not chosen.cases and not chosen.quick
    cases = ALL if whole else QUICK if chosen.quick else [named[name] for name in chosen.cases]
    code = judge(run(cases), whole=whole)
    say(f"{time.monotonic() - started:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
