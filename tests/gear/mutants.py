"""`make mutants`: plant one small fault after the other, and see the suite find each.

A mutant is one replacement in one file, with the tests that must fail for it; they take a minute at most. First the
tests are run on the untouched code, where all must pass: a mutant killed by a test that fails anyway proves nothing.
Each mutant works on a copy of the repository, with a database, a Valkey and queues of its own.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import urlsplit, urlunsplit

from tests.gear.mutations import MUTANTS, Mutant
from tests.gear.proofs import report

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 60
SLOTS = int(os.environ.get("MUTANT_SLOTS", "2"))
LINKED = (".venv", ".venv-devstack")
FAILED, PASSED = 1, 0


@dataclass(frozen=True)
class Verdict:
    mutant: str
    killed: bool
    said: str
    seconds: float


@dataclass(frozen=True)
class Slot:
    """A copy of the repository and the names that keep its runs apart from the others'."""

    number: int
    folder: Path

    def environ(self) -> dict[str, str]:
        address = urlsplit(os.environ["DATABASE_URL"])
        database = urlunsplit(address._replace(path=f"{address.path}_m{self.number}"))
        return os.environ | {"DATABASE_URL": database, "PYTEST_XDIST_WORKER": f"mutant{self.number}"}

    def run(self, tests: Sequence[str]) -> tuple[int, str]:
        """Exit code of pytest and its last line; the code of a timeout is FAILED, for a hang is found too."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", "--timeout", str(SECONDS), *tests]
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=self.environ(),
                capture_output=True,
                text=True,
                check=False,
                timeout=2 * SECONDS,
            )
        except subprocess.TimeoutExpired:
            return FAILED, "hung"
        return done.returncode, (done.stdout.strip().splitlines() or ["nothing"])[-1]


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
        code, said = slot.run(mutant.tests)
    if code not in {FAILED, PASSED}:
        said = f"the tests did not run (exit code {code}): {said}"
    return Verdict(mutant.name, code == FAILED, said, time.monotonic() - began)


def main() -> int:
    chosen = [mutant for mutant in MUTANTS if len(sys.argv) == 1 or mutant.name in sys.argv[1:]]
    with tempfile.TemporaryDirectory(prefix="dpp-mutants-") as home:
        slots = copies(Path(home))
        free: SimpleQueue[Slot] = SimpleQueue()
        for slot in slots:
            free.put(slot)

        def in_a_slot(mutant: Mutant) -> Verdict:
            slot = free.get()
            try:
                return judge(slot, mutant)
            finally:
                free.put(slot)

        code, said = slots[0].run(sorted({test for mutant in chosen for test in mutant.tests}))
        if code != PASSED:
            print(f"the untouched code fails already: {said}")  # noqa: T201
            return 1
        with ThreadPoolExecutor(len(slots)) as pool:
            verdicts = []
            for verdict in pool.map(in_a_slot, chosen):
                mark = "killed  " if verdict.killed else "SURVIVED"
                print(f"{mark} {verdict.seconds:5.1f} s  {verdict.mutant}: {verdict.said}", flush=True)  # noqa: T201
                verdicts.append(verdict)
    killed = sum(verdict.killed for verdict in verdicts)
    report(cases=killed)
    print(f"{killed} of {len(verdicts)} planted faults found")  # noqa: T201
    return 0 if killed == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
