"""From a machine that has Python and nothing of ours to the first paid run, and from there a warm `make up`.

    make bench B=first_run

A copy of what git has, in a folder of its own: `make demo` makes the environment, without pip's cache, starts all
services and the platform, and sells a run; its downloads are in the time, and told apart. Then `make down`, and
`make up` three times on what is there. Everything is stopped and deleted at the end.
"""

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from bench._figures import tell
from bench._servers import REPOSITORY

FIRST_RUN_SECONDS: Final = 45
UP_SECONDS: Final = 3
MAKE_SECONDS: Final = 300
STARTS: Final = 3
NOT_THEIRS: Final = ("DPP_", "DATABASE_URL", "REDIS_URL", "AWS_", "SQS_", "S3_", "DJANGO_", "VIRTUAL_ENV", "MAKE")
"""Of the services of the bench, which the copy is to know nothing of."""


def make(folder: Path, *target: str) -> float:
    """Seconds that it took."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(NOT_THEIRS)}
    environ |= {"PIP_NO_CACHE_DIR": "1"}
    began = time.monotonic()
    done = subprocess.run(
        ["make", "-C", str(folder), *target],
        env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MAKE_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(
            f"make {' '.join(target)} ended with {done.returncode}:\n{done.stdout[-1_500:]}{done.stderr[-1_500:]}"
        )
    return time.monotonic() - began


def copied(folder: Path) -> None:
    files = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    for name in filter(None, files.split("\0")):
        if (source := REPOSITORY / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copied(folder)
        try:
            installing = make(folder, "base")
            first = make(folder, "demo")
            tell("download and install", installing, "s")
            tell("from nothing to the first paid run", installing + first, "s", at_most=FIRST_RUN_SECONDS)
            tell("of it after the install", first, "s")
            again = []
            for _ in range(STARTS):
                make(folder, "down")
                again.append(make(folder, "up"))
            tell("warm `make up`", statistics.median(again), "s", at_most=UP_SECONDS)
        finally:
            make(folder, "reset")


if __name__ == "__main__":
    main()
