"""Packs whose rehearsal goes wrong, each a module of its own; a run says if it was forked from a rehearsed process."""

from collections.abc import Callable

from pydantic import JsonValue

from runs.packs.pack import Pack, Work
from tests.gear.faults.nasty_packs import Inputs, nasty

done: list[str] = []
"""What was rehearsed in this process, or in the one that it was forked from."""


def rehearsing(rehearsal: Callable[[], object]) -> Pack[Inputs]:
    def execute(work: Work[Inputs]) -> dict[str, JsonValue]:
        work.meter.charge(0)
        return {"rehearsed": [*done]}

    def noted() -> object:
        done.append("begun")
        return rehearsal()

    return nasty(execute, rehearsal=noted)
