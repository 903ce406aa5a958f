"""The daily cleanup's tick, and the look for alarms; both also by hand, `manage.py run_job data_cleanup`."""

from datetime import datetime
from typing import Final

from dpp_project.jobs.registry import Job, PassReport
from dpp_project.lifecycle import alarming, cleaning, measuring


def run_alarm_checks(*, now: datetime, limit: int) -> PassReport:
    del now, limit
    return alarming.look_at_all()


CLEANUP: Final = Job(
    name="data_cleanup",
    summary="Deletes what is past its period, once a day from 03:00 on, in batches.",
    every_seconds=60,
    run_once=cleaning.clean_due_data,
    preview=cleaning.preview_cleaning,
)
JOBS: Final = (
    CLEANUP,
    Job(
        name="alarms",
        summary="Looks for what a person must see to: a cleanup that fails, a silent process, a disk that fills.",
        every_seconds=30,
        run_once=run_alarm_checks,
    ),
    Job(
        name="data_sizes",
        summary="Measures how much room each kind of data takes, and how full Postgres and Redis are.",
        every_seconds=21_600,
        run_once=measuring.measure_disks,
    ),
)
