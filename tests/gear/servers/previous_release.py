"""The release before this one, out of the repository's history, run with this one's services and libraries."""

import io
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpp_project.devstack.programs import REPOSITORY
from tests.gear.servers.live_processes import database_url

RELEASE = re.compile(r"^## (\S+) \([\d-]+, commit ([0-9a-f]{7,40})\)$", re.MULTILINE)


def named() -> tuple[str, str]:
    """Version and commit of the last release, as CHANGELOG.md names it."""
    found = RELEASE.search((REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert found is not None
    return found[1], found[2]


def unpack(folder: Path) -> Path:
    """Its tree, without touching the work tree."""
    _, commit = named()
    packed = subprocess.run(["git", "archive", commit], cwd=REPOSITORY, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    (folder / "staticfiles").mkdir(exist_ok=True)  # its server insists
    return folder


@contextmanager
def running(tree: Path, part: str, **environ: str) -> Iterator[Path]:
    """A part of the platform from a tree; yields its log."""
    whole = {name: value for name, value in os.environ.items() if name not in {"DPP_SERVICE", "PYTHONPATH"}}
    whole |= {"DATABASE_URL": database_url(), "DPP_METRICS_DIR": "", "DPP_SQS_WAIT_SECONDS": "1"} | environ
    log = tree / f"{part}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "dpp_project.serve", part], cwd=tree, env=whole, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield log
        assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")[-3_000:]
        process.terminate()
        process.wait(30)
    finally:
        process.kill()
        process.wait()
