"""A run's life as a bar: how long it was queued, at work and being finished. Pure but for reading its history."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dpp_project.durations import short_span
from runs.models import Run, RunHistory
from runs.states import Stage, Status

WHOLE: Final = 1_000
LEAST: Final = 12
"""A part that took next to nothing is still seen."""


@dataclass(frozen=True, slots=True)
class LifePart:
    """One stretch; `x` and `width` in thousandths of the whole."""

    name: str
    took: timedelta
    goes_on: bool
    x: int
    width: int

    @property
    def said(self) -> str:
        return f"{short_span(self.took)}{' so far' if self.goes_on else ''}"


@dataclass(frozen=True, slots=True)
class Life:
    parts: Sequence[LifePart]
    whole: timedelta

    @property
    def said(self) -> str:
        return ", ".join(f"{part.name} {part.said}" for part in self.parts)

    @property
    def whole_said(self) -> str:
        return short_span(self.whole)


def life_of(run: Run, steps: Sequence[RunHistory], *, now: datetime) -> Life:
    """From what each step made of it; a run whose history is gone has its two dates alone."""
    marks: list[tuple[str, datetime]] = [("queued", run.created_at)]
    for step in steps:
        name = _run_life_stretch_name(step)
        if name is not None and marks[-1][0] != name:
            marks.append((name, step.at))
    ended = next((step.at for step in steps if step.stage == Stage.COMMITTED), None)
    if ended is None and run.finalize_stage == Stage.COMMITTED:
        ended = run.updated_at
    until = ended or max(now, marks[-1][1])
    stretches = [
        (name, max(timedelta(), then - at))
        for (name, at), (_, then) in zip(marks, [*marks[1:], ("", until)], strict=True)
    ]
    return Life(_drawn(stretches, goes_on=ended is None), until - run.created_at)


def _run_life_stretch_name(step: RunHistory) -> str | None:
    if step.stage == Stage.CLAIMED:
        return "finishing"
    return "working" if step.status == Status.PROCESSING else None


def _drawn(stretches: Sequence[tuple[str, timedelta]], *, goes_on: bool) -> list[LifePart]:
    whole = sum((took for _, took in stretches), timedelta()) or timedelta(microseconds=1)
    room = WHOLE - LEAST * len(stretches)
    parts, x = [], 0
    for place, (name, took) in enumerate(stretches):
        is_last = place == len(stretches) - 1
        width = WHOLE - x if is_last else LEAST + took * room // whole
        parts.append(LifePart(name, took, goes_on and is_last, x, width))
        x += width
    return parts
