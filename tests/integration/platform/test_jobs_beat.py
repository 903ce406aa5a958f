"""Beat runs the jobs itself: without a queue, beside another beat, and without one job holding up the rest (DPP-46)."""

import os
import signal
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection, connections

from dpp_project.celery import app
from dpp_project.jobs import deadline, registry
from dpp_project.jobs.models import JobReport
from dpp_project.jobs.registry import Job, PassReport
from dpp_project.jobs.scheduler import JobScheduler
from tests.gear.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.django_db(transaction=True)


def job(name: str, run_once: Any, *, every_seconds: int = 3_600) -> Job:
    return Job(name=name, summary="For a test.", every_seconds=every_seconds, run_once=run_once, limit=7)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Job]:
    found: dict[str, Job] = {}
    monkeypatch.setattr(registry, "declared_jobs", lambda: found)
    return found


def reports(name: str) -> int:
    return JobReport.objects.filter(job=name, ended_at__isnull=False).count()


@pytest.mark.contract("DPP-46")
def test_dpp_46_every_job_runs_at_the_start_of_beat_and_one_that_hangs_or_raises_stops_no_other(
    known: dict[str, Job],
) -> None:
    finish = threading.Event()

    def hang(*, now: datetime, limit: int) -> PassReport:
        assert finish.wait(20)
        return PassReport()

    def burst(*, now: datetime, limit: int) -> PassReport:
        raise ValueError

    def work(*, now: datetime, limit: int) -> PassReport:
        return PassReport(seen=1)

    known["hangs"] = job("hangs", hang)
    known["raises"] = job("raises", burst)
    known["works"] = job("works", work)
    scheduler = JobScheduler(app=app)
    try:
        wait_until(lambda: reports("works") == 1 and reports("raises") == 1, what="two reports")
        scheduler.start("hangs")
        finish.set()
        wait_until(lambda: reports("hangs") == 1, what="the third")
    finally:
        finish.set()
        scheduler.close()
        connections.close_all()
    assert JobReport.objects.count() == 3


@pytest.mark.contract("DPP-46")
def test_dpp_46_twenty_jobs_that_hang_delay_no_other_and_each_has_its_connection(known: dict[str, Job]) -> None:
    finish = threading.Event()

    def hang(*, now: datetime, limit: int) -> PassReport:
        assert finish.wait(20)
        return PassReport()

    def work(*, now: datetime, limit: int) -> PassReport:
        return PassReport(seen=1)

    hanging = [f"hangs {number}" for number in range(20)]
    known |= {name: job(name, hang) for name in hanging}
    known["works"] = job("works", work)
    scheduler = JobScheduler(app=app)
    try:
        wait_until(lambda: reports("works") == 1, what="the report of the job that works")
        wait_until(lambda: JobReport.objects.count() == 21, what="twenty jobs at once")
        assert sum(map(reports, hanging)) == 0
    finally:
        finish.set()
        scheduler.close()
        connections.close_all()
    assert sum(map(reports, hanging)) == 20


@pytest.mark.contract("DPP-46", "DPP-73")
def test_dpp_46_a_stop_of_beat_ends_each_pass_at_its_next_row(known: dict[str, Job]) -> None:
    begun = threading.Event()

    def endless(*, now: datetime, limit: int) -> PassReport:
        begun.set()
        seen = 0
        while not deadline.is_over():
            seen += 1
        return PassReport(seen=min(seen, 1))

    known["endless"] = job("endless", endless)
    scheduler = JobScheduler(app=app)
    try:
        assert begun.wait(10)
    finally:
        scheduler.close()
        connections.close_all()
    assert reports("endless") == 1


@pytest.mark.contract("DPP-46")
def test_dpp_46_a_job_comes_again_when_it_is_due_and_beat_may_run_twice(known: dict[str, Job]) -> None:
    at_once, most, lock = 0, 0, threading.Lock()

    def once(*, now: datetime, limit: int) -> PassReport:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        with lock:
            at_once -= 1
        return PassReport()

    known["ticks"] = job("ticks", once, every_seconds=1)
    beats = [JobScheduler(app=app), JobScheduler(app=app)]

    def ticked() -> bool:
        for beat in beats:
            beat.tick()
        return reports("ticks") >= 3

    try:
        wait_until(ticked, what="three reports")
    finally:
        for beat in beats:
            beat.close()
        connections.close_all()
    assert most == 1


def database_url() -> str:
    """The database of the tests, for another process."""
    found = connection.settings_dict
    user, password = quote(found["USER"]), quote(found["PASSWORD"])
    return f"postgresql://{user}:{password}@{found['HOST']}:{found['PORT']}/{found['NAME']}"


@pytest.mark.contract("DPP-46", "DPP-73")
def test_dpp_46_the_beat_process_runs_jobs_with_sqs_away_and_ends_on_sigterm(tmp_path: Path) -> None:
    log = tmp_path / "beat.log"
    environ = os.environ | {
        "DATABASE_URL": database_url(),
        "SQS_ENDPOINT_URL": "http://127.0.0.1:9",
        "DPP_SERVICE": "reaper",
        "DPP_LOG_LEVEL": "INFO",
    }
    with log.open("wb") as out:
        beat = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "dpp_project.celery", "beat"],
            cwd=ROOT,
            env=environ,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: reports("data_cleanup") == 1, seconds=20, what="the first report")
        beat.send_signal(signal.SIGTERM)
        assert beat.wait(10) == 0
    finally:
        beat.kill()
        beat.wait()
    line = next(line for line in log.read_text(encoding="utf-8").splitlines() if '"logger": "dpp.job"' in line)
    assert '"service": "reaper"' in line
    assert not list(ROOT.glob("celerybeat-schedule*"))
