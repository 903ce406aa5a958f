"""Beat on a clock that the test moves: when a job comes, and how old a run has become when it does."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

from django.db.models import DateTimeField, F

from dpp_project import clock
from dpp_project.celery import app
from dpp_project.clock import FixedClock
from dpp_project.jobs import registry
from dpp_project.jobs.scheduler import JobScheduler
from runs.models import Run

HAPPENED_AT = 15
"""A crash, so many seconds after beat's start: far enough from every tick that a slow test changes nothing."""


class _Beat(JobScheduler):
    """The real schedule of the real jobs; it notes what it would start."""

    def __init__(self) -> None:
        self.started: set[str] = set()
        super().__init__(app=app)

    def start(self, name: str) -> None:
        self.started.add(name)

    def schedules_equal(self, *_: object) -> bool:
        """Celery compares all schedules at each tick, and here a tick follows the other; none of ours changes."""
        return True


def seconds_of(job: str, *, until: int) -> Iterator[int]:
    """Each second after its own start at which beat starts the job."""
    at = FixedClock(datetime(2026, 3, 1, 12, tzinfo=UTC))
    with patch.object(app, "now", at.now):
        beat = _Beat()
        for second in range(until + 1):
            while beat.tick() == 0:  # one due job for each call
                pass
            if job in beat.started:
                yield second
            beat.started.clear()
            at.advance(seconds=1)
        beat.close()


def age_after_passes(job: str, run: Run, *, until: Callable[[], object], within: int) -> int:
    """How old the crash of this run is, in seconds, when beat's passes have brought about `until`.

    Between two passes every time in the row moves back by what lies between them, so that the database's clock, by
    which all loops measure, finds the row as old as it would be.
    """
    before = HAPPENED_AT
    for second in seconds_of(job, until=HAPPENED_AT + within):
        if second < HAPPENED_AT:
            continue
        _grows_older(run, seconds=second - before)
        before = second
        registry.job_named(job).run_once(now=clock.now(), limit=registry.job_named(job).limit)
        if until():
            return second - HAPPENED_AT
    raise AssertionError(f"{job} has not brought it about within {within} s")


def _grows_older(run: Run, *, seconds: int) -> None:
    times = [field.attname for field in Run._meta.concrete_fields if isinstance(field, DateTimeField)]
    Run.objects.filter(run_id=run.run_id).update(**{name: F(name) - timedelta(seconds=seconds) for name in times})
