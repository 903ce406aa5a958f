"""Running the packs of tests/gear/faults/nasty_packs.py in a real box."""

import contextlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from runs.box.box import Box
from runs.box.outcomes import Done, PackOutcome
from runs.box.running import FetchUpload, PackRequest, RunningPack
from tests.gear.builders.packs import PackLog, fitting, no_upload
from tests.gear.faults import nasty_packs

MODULE = nasty_packs.__name__
CEILING_MICROS = 1_000


def a_job(
    attribute: str, *, timebox_seconds: float = 10.0, inputs: dict[str, Any] | None = None, **values: Any
) -> PackRequest:
    pack = getattr(nasty_packs, attribute)
    arguments: dict[str, Any] = {
        "run_id": "a-run",
        "module": MODULE,
        "attribute": attribute,
        "inputs": inputs or {},
        "timebox_seconds": timebox_seconds,
        "ceiling_micros": CEILING_MICROS,
        "memory_bytes": pack.memory_bytes,
        "reach": pack.reach({}),
    }
    return PackRequest(**(arguments | values))


def begin(
    box: Box, job: PackRequest, *, log: PackLog | None = None, fetch_upload: FetchUpload = no_upload
) -> RunningPack:
    return box.start(job, fetch_upload=fetch_upload, log=log or PackLog())


@pytest.fixture(scope="session", autouse=True)
def results_fit() -> Iterator[None]:
    """What any box of the session answers fits what its pack declares, and so does the envelope made of it."""
    wait = RunningPack.wait

    def waits(running: RunningPack) -> PackOutcome:
        outcome, job = wait(running), running._job
        if isinstance(outcome, Done) and job.attribute == "PACK":
            fitting(import_module(job.module).PACK, outcome.data)
        return outcome

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunningPack, "wait", waits)
        yield


def run(box: Box, attribute: str, **values: Any) -> PackOutcome:
    return begin(box, a_job(attribute, **values)).wait()


def lives(pid: int) -> bool:
    """A zombie does not: it holds nothing but its number."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def with_argument(word: str) -> list[int]:
    """Living processes that have it in their command line, as this machine numbers them."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word.encode() in (entry / "cmdline").read_bytes().split(b"\0") and lives(int(entry.name)):
                found.append(int(entry.name))
    return found
