"""A job's lease: renewed by a pass that gets on, taken over from one that died, froze or hangs (HRD-01)."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from django.db import connection, connections

from dpp_project import clock
from dpp_project.celery import app
from dpp_project.jobs import deadline, leases, registry, runner, scheduler
from dpp_project.jobs.deadline import Pass
from dpp_project.jobs.models import JobReport
from dpp_project.jobs.registry import Job, PassReport
from dpp_project.jobs.runner import PassOutcome
from dpp_project.jobs.scheduler import JobScheduler
from tests.gear.servers.live_processes import database_url
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("HRD-01")]


def job(run_once: Any = None, *, name: str = "probe", every_seconds: int = 30) -> Job:
    return Job(name=name, summary="For a test.", every_seconds=every_seconds, run_once=run_once or done)


def done(*, now: datetime, limit: int) -> PassReport:
    return PassReport(seen=1)


def begun(name: str = "probe") -> int:
    row = leases.take_job_lease(name, started_at=clock.now(), dry_run=False)
    assert row is not None
    return row


def silent_for(row: int, seconds: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE job_reports SET beat_at = clock_timestamp() - make_interval(secs => %s) WHERE id = %s",
            [seconds, row],
        )


def silence(row: int) -> float | None:
    """Seconds since its heartbeat; None: its row is no lease any more."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp() - beat_at) FROM job_reports WHERE id = %s", [row])
        (seconds,) = cursor.fetchone()
    return None if seconds is None else float(seconds)


def test_hrd_01_a_pass_that_is_silent_for_less_than_its_lease_keeps_the_job() -> None:
    row = begun()
    silent_for(row, leases.LEASE_SECONDS - 2)
    assert runner.run_job_pass(job()).outcome is PassOutcome.BUSY
    assert JobReport.objects.count() == 1
    assert silence(row) is not None


def test_hrd_01_a_pass_that_is_silent_for_longer_is_taken_over() -> None:
    row, other = begun(), begun("another")
    silent_for(row, leases.LEASE_SECONDS + 1)
    silent_for(other, leases.LEASE_SECONDS + 1)
    assert runner.run_job_pass(job()).outcome is PassOutcome.DONE
    old = JobReport.objects.get(pk=row)
    assert (old.ended_at, old.beat_at) == (None, None), "its report stays as that of one that died"
    assert JobReport.objects.get(pk=other).beat_at is not None, "another job's lease is its own"
    assert JobReport.objects.filter(job="probe", ended_at__isnull=False, beat_at__isnull=True).count() == 1


def test_hrd_01_two_that_take_over_at_once_are_one() -> None:
    silent_for(begun(), leases.LEASE_SECONDS + 1)
    taken: list[int | None] = []
    start = threading.Barrier(4)

    def take() -> None:
        start.wait(10)
        taken.append(leases.take_job_lease("probe", started_at=clock.now(), dry_run=False))
        connections.close_all()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(taken) == 4
    assert sum(row is not None for row in taken) == 1


def test_hrd_01_a_pass_that_gets_on_is_renewed_and_one_that_was_taken_over_ends_at_its_next_row() -> None:
    mine, lost = begun(), begun("another")
    keeper, running, overtaken = leases.JobLeaseKeeper(), Pass(seconds=60), Pass(seconds=60)
    keeper._running |= {mine: running, lost: overtaken}
    silent_for(mine, 10)
    JobReport.objects.filter(pk=lost).update(beat_at=None)
    keeper.beat()
    renewed = silence(mine)
    assert renewed is not None
    assert renewed < 5
    assert (running.is_over(), overtaken.is_over()) == (False, True)
    assert silence(lost) is None, "what was taken over is not taken back"


def test_hrd_01_a_pass_that_hangs_gives_its_job_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past its deadline, and without a word for HANG_SECONDS. One of the two alone is no sign."""
    seconds = [0.0]
    monkeypatch.setattr(deadline, "monotonic", lambda: seconds[0])
    row, keeper, running = begun(), leases.JobLeaseKeeper(), Pass(seconds=60)
    keeper._running[row] = running
    for now, word, hangs in ((41.0, False, False), (59.0, True, False), (98.0, False, False), (99.0, False, True)):
        seconds[0] = now
        if word:
            running.progressed()
        assert running.hangs() is hangs
        keeper.beat()
        assert (silence(row) is None) is hangs
    assert runner.run_job_pass(job()).outcome is PassOutcome.DONE
    keeper.beat()
    assert running.is_over(), "should it ever come back"


FROZEN = """
import time
import django; django.setup()
from dpp_project.jobs import deadline, leases, runner
from dpp_project.jobs.registry import Job, PassReport
leases.BEAT_SECONDS = 0.1
def once(*, now, limit):
    while not deadline.is_over():
        time.sleep(0.01)
    return PassReport(seen=7)
print(runner.run_job_pass(Job(name="probe", summary="For a test.", every_seconds=3600, run_once=once)).outcome.name)
"""


@pytest.fixture
def worker_of_the_job() -> Iterator[subprocess.Popen[str]]:
    environ = os.environ | {
        "DATABASE_URL": database_url(),
        "DPP_SERVICE": "reaper",
        "DJANGO_SETTINGS_MODULE": "dpp_project.settings",
    }
    with subprocess.Popen([sys.executable, "-c", FROZEN], env=environ, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_hrd_01_a_frozen_process_loses_its_job_and_ends_its_pass_when_it_thaws(
    worker_of_the_job: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE_SECONDS", 2)
    wait_until(JobReport.objects.exists, seconds=20, what="the pass of the other process")
    row = JobReport.objects.get()
    first = row.beat_at
    assert first is not None
    wait_until(lambda: JobReport.objects.filter(pk=row.pk, beat_at__gt=first).exists(), what="a heartbeat")
    assert runner.run_job_pass(job()).outcome is PassOutcome.BUSY
    worker_of_the_job.send_signal(signal.SIGSTOP)
    wait_until(lambda: runner.run_job_pass(job()).outcome is PassOutcome.DONE, what="the job, from the frozen process")
    row.refresh_from_db()
    assert (row.ended_at, row.beat_at) == (None, None)
    worker_of_the_job.send_signal(signal.SIGCONT)
    said, _ = worker_of_the_job.communicate(timeout=20)
    assert said.splitlines()[-1] == "DONE", "it ended at its next row, far before its hour"
    row.refresh_from_db()
    assert (row.seen, row.beat_at) == (7, None)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Job]:
    found: dict[str, Job] = {}
    monkeypatch.setattr(registry, "declared_jobs", lambda: found)
    return found


@pytest.mark.parametrize("connections_of_pool", [1, 2])
def test_hrd_01_a_job_that_hangs_starts_anew_and_starves_no_other(
    known: dict[str, Job], monkeypatch: pytest.MonkeyPatch, connections_of_pool: int
) -> None:
    """Its thread keeps its connection. Beside it the same job comes again, and every other."""
    monkeypatch.setattr(deadline, "HANG_SECONDS", 0)
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.05)
    pool: Any = connection.pool  # type: ignore[attr-defined]  # psycopg's alone
    monkeypatch.setattr(pool, "_max_size", connections_of_pool)
    finish, passes = threading.Event(), []

    def hangs_once(*, now: datetime, limit: int) -> PassReport:
        JobReport.objects.count()  # so it holds a connection
        passes.append(now)
        if len(passes) == 1:
            assert finish.wait(30)
        return PassReport()

    known["hangs"] = job(hangs_once, name="hangs", every_seconds=1)
    known["works"] = job(name="works", every_seconds=1)
    beat = JobScheduler(app=app)

    def ticked() -> bool:
        beat.tick()
        return JobReport.objects.filter(job="hangs", ended_at__isnull=False).exists()

    try:
        wait_until(ticked, what="the job that hung, done")
        ended = JobReport.objects.filter(job="works", ended_at__isnull=False).count()
        assert ended >= 1
        assert pool.max_size == len(known) + 2 + 1, "and one for the thread that hangs"
        assert len(beat._hung) == 1
        beat.close()
    finally:
        finish.set()
        wait_until(lambda: not beat._hung[0].thread.is_alive(), what="the end of the thread that hung")
        beat.close()
        connections.close_all()
    assert beat._running == {}


def test_hrd_01_a_beat_in_which_too_many_hang_ends_itself(
    known: dict[str, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "HUNG_MAX", 2)
    monkeypatch.setattr(deadline, "HANG_SECONDS", 0)
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    finish = threading.Event()

    def hang(*, now: datetime, limit: int) -> PassReport:
        assert finish.wait(30)
        return PassReport()

    known["one"], known["two"] = (job(hang, name=name, every_seconds=1) for name in ("one", "two"))
    beat = JobScheduler(app=app)
    try:
        wait_until(lambda: JobReport.objects.count() == 2, what="two jobs at work")
        for started in beat._running.values():
            wait_until(started.running.hangs, what="its deadline")
        beat.start("one")
        assert sent == []
        beat.start("two")
        assert sent == [(os.getpid(), signal.SIGTERM)]
    finally:
        finish.set()
        beat.close()
        for left in beat._hung:
            left.thread.join(10)
        connections.close_all()
