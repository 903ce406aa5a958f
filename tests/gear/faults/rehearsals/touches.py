"""Takes what a library keeps for good at its first use: the folder for temporary files, and random numbers."""

import random
import tempfile

from pydantic import JsonValue

from runs.packs.pack import Work
from tests.gear.faults.nasty_packs import Inputs, nasty


def _execute(work: Work[Inputs]) -> dict[str, JsonValue]:
    work.meter.charge(0)
    return {"folder": tempfile.gettempdir(), "number": random.random()}  # noqa: S311


PACK = nasty(_execute, rehearsal="example")
