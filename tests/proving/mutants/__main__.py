"""`make mutants`: plant one small fault after the other, and see the suite find each.

A mutant is one replacement in one file, with the tests that must fail for it; they take a minute at most. The same
tests are run on the untouched code first, where all must pass: a mutant killed by a test that fails anyway proves
nothing. Each mutant works on a copy of the repository, with a database, a Valkey and queues of its own.

    python -m tests.proving.mutants                  all of them
    python -m tests.proving.mutants gate "a commit"  those whose name has one of these in it
    python -m tests.proving.mutants --third          every third, another on each day: as `make prove` does
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

from dpp_project import clock
from tests.gear import migrated
from tests.proving.mutants import MUTANTS
from tests.proving.mutants.mutant import Mutant
from tests.proving.proofs import report

REPOSITORY = Path(__file__).resolve().parents[3]
SECONDS = 60
"""For the tests of one mutant."""
UNTOUCHED_SECONDS = 600
SLOTS = int(os.environ.get("MUTANT_SLOTS", "2"))
LINKED = (".venv", ".venv-devstack")
FAILED, PASSED = 1, 0

Result = TypeVar("Result")


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    killed: bool
    said: str
    seconds: float


@dataclass(frozen=True)
class Slot:
    """A copy of the repository and the names that keep its runs apart from the others'."""

    number: int
    folder: Path

    def environ(self, *, migrated_before: bool) -> dict[str, str]:
        """The untouched code has migrated a database, of which each mutant but one of a migration has a copy."""
        address = urlsplit(os.environ["DATABASE_URL"])
        database = urlunsplit(address._replace(path=f"{address.path}_m{self.number}"))
        own = {"DATABASE_URL": database, "PYTEST_XDIST_WORKER": f"mutant{self.number}"}
        return os.environ | own | ({migrated.RUN: "mutants"} if migrated_before else {})

    def run(self, tests: Sequence[str], *, seconds: int = SECONDS, migrated_before: bool = True) -> tuple[int, str]:
        """Exit code of pytest and its last line; the code of a timeout is FAILED, for a hang is found too."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", *tests]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environ(migrated_before=migrated_before),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return FAILED, "hung"
        lines = said.strip().splitlines() or ["nothing"]
        return process.returncode, "; ".join([line for line in lines if line.startswith("FAILED ")] + lines[-1:])


@contextmanager
def planted(folder: Path, mutant: Mutant) -> Iterator[None]:
    path = folder / mutant.file
    before = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied(before), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


def copies(home: Path) -> list[Slot]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split("\0")
    ours = [name for name in listed if name and (REPOSITORY / name).is_file()]
    slots = []
    for number in range(SLOTS):
        folder = home / f"copy{number}"
        for name in ours:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
        for name in LINKED:
            (folder / name).symlink_to(REPOSITORY / name)
        slots.append(Slot(number, folder))
    return slots


def judge(slot: Slot, mutant: Mutant) -> Verdict:
    began = time.monotonic()
    with planted(slot.folder, mutant):
        code, said = slot.run(mutant.tests, migrated_before="migrations" not in Path(mutant.file).parts)
    if code not in {FAILED, PASSED}:
        said = f"the tests did not run (exit code {code}): {said}"
    return Verdict(mutant, code == FAILED, said, time.monotonic() - began)


def main() -> int:
    wanted = sys.argv[1:]
    chosen = [mutant for mutant in MUTANTS if not wanted or any(part in mutant.name for part in wanted)]
    if wanted == ["--third"]:
        first = clock.now().toordinal() % 3
        chosen = list(MUTANTS[first::3])
        print(f"every third from number {first} on; `make mutants` takes all {len(MUTANTS)}")  # noqa: T201
    if not chosen:
        print(f"no mutant has {' or '.join(wanted)} in its name", file=sys.stderr)  # noqa: T201
        return 2
    with tempfile.TemporaryDirectory(prefix="dpp-mutants-") as home, ThreadPoolExecutor(SLOTS) as pool:
        free: SimpleQueue[Slot] = SimpleQueue()
        for slot in copies(Path(home)):
            free.put(slot)

        def in_a_slot(work: Callable[[Slot], Result]) -> Result:
            slot = free.get()
            try:
                return work(slot)
            finally:
                free.put(slot)

        tests = sorted({test for mutant in chosen for test in mutant.tests})
        parts = [tests[number::SLOTS] for number in range(min(SLOTS, len(tests)))]
        untouched = [lambda slot, part=part: slot.run(part, seconds=UNTOUCHED_SECONDS) for part in parts]
        for code, said in pool.map(in_a_slot, untouched):
            if code != PASSED:
                print(f"the untouched code fails already: {said}")  # noqa: T201
                return 1
        print(f"the untouched code passes the {len(tests)} tests that are to find {len(chosen)} faults", flush=True)  # noqa: T201
        verdicts = []
        for verdict in pool.map(in_a_slot, [partial(judge, mutant=mutant) for mutant in chosen]):
            mark = "killed  " if verdict.killed else "SURVIVED"
            print(f"{mark} {verdict.seconds:5.1f} s  {verdict.mutant.file}: {verdict.mutant.name}", flush=True)  # noqa: T201
            if not verdict.killed:
                print(f"         {verdict.said}", flush=True)  # noqa: T201
            verdicts.append(verdict)
    killed = sum(verdict.killed for verdict in verdicts)
    report(cases=killed)
    longest = max(verdict.seconds for verdict in verdicts)
    print(f"{killed} of {len(verdicts)} planted faults found, each within {longest:.0f} s")  # noqa: T201
    return 0 if killed == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
