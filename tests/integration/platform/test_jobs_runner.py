"""One run of a job: alone, reported, harmless when it fails (DPP-46)."""

import io
import json
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, connection

from dpp_project import clock as time_source
from dpp_project.clock import FixedClock
from dpp_project.jobs import deadline, registry, runner
from dpp_project.jobs.metrics import collect_job_ages
from dpp_project.jobs.models import JobReport
from dpp_project.jobs.registry import Job, PassReport, RunOnce
from dpp_project.jobs.runner import PassOutcome
from dpp_project.lifecycle import cleaning

pytestmark = pytest.mark.django_db(transaction=True)

START = datetime.fromisoformat("2026-03-01T12:00:00+00:00")


def job(run_once: Any, *, name: str = "probe", preview: Any = None) -> Job:
    return Job(name=name, summary="For a test.", every_seconds=30, run_once=run_once, limit=7, preview=preview)


def answers(report: PassReport) -> RunOnce:
    def once(*, now: datetime, limit: int) -> PassReport:
        return report

    return once


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Job]]:
    """Jobs that the commands find, besides the declared ones."""
    found = dict(registry.declared_jobs())
    monkeypatch.setattr(registry, "declared_jobs", lambda: found)
    return found  # type: ignore[return-value]


@pytest.mark.contract("DPP-46")
def test_dpp_46_a_run_leaves_one_report(clock: FixedClock) -> None:
    def once(*, now: datetime, limit: int) -> PassReport:
        assert (now, limit) == (START, 7)
        clock.advance(seconds=2)
        return PassReport(seen=3, changed=2, errors=1, detail={"ids": ["a"]})

    ran = runner.run_job_pass(job(once))
    assert ran.outcome is PassOutcome.DONE
    row = JobReport.objects.get()
    assert (row.job, row.started_at, row.ended_at) == ("probe", START, START + timedelta(seconds=2))
    assert (row.seen, row.changed, row.errors, row.detail, row.dry_run) == (3, 2, 1, {"ids": ["a"]}, False)


@pytest.mark.contract("DPP-46")
def test_dpp_46_two_at_once_are_one_and_a_normal_answer() -> None:
    running, finish = threading.Event(), threading.Event()
    outcomes: list[PassOutcome] = []

    def once(*, now: datetime, limit: int) -> PassReport:
        running.set()
        assert finish.wait(10)
        return PassReport(seen=1)

    def first() -> None:
        outcomes.append(runner.run_job_pass(job(once)).outcome)
        connection.close()

    other = threading.Thread(target=first)
    other.start()
    assert running.wait(10)
    assert runner.run_job_pass(job(once)) == runner.FinishedPass(outcome=PassOutcome.BUSY)
    assert runner.run_job_pass(job(answers(PassReport()), name="another")).outcome is PassOutcome.DONE
    finish.set()
    other.join(10)
    assert outcomes == [PassOutcome.DONE]
    assert JobReport.objects.filter(job="probe").count() == 1
    assert runner.run_job_pass(job(answers(PassReport()))).outcome is PassOutcome.DONE


@pytest.mark.contract("DPP-46")
def test_dpp_46_a_pass_has_four_fifths_of_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, asked = [0.0], []
    monkeypatch.setattr(deadline, "monotonic", lambda: seconds[0])

    def once(*, now: datetime, limit: int) -> PassReport:
        for passed in (0.0, 23.9, 24.0, 30.0):
            seconds[0] = passed
            asked.append(deadline.is_over())
        return PassReport()

    assert runner.run_job_pass(job(once)).outcome is PassOutcome.DONE
    assert asked == [False, False, True, True]
    assert not deadline.is_over()


@pytest.mark.contract("DPP-46")
def test_dpp_46_a_job_that_raises_is_reported_without_its_words_and_frees_its_lock() -> None:
    def once(*, now: datetime, limit: int) -> PassReport:
        raise RuntimeError("dpp_abcdefgh_secret")

    assert runner.run_job_pass(job(once)).outcome is PassOutcome.FAILED
    row = JobReport.objects.get()
    assert (row.errors, row.detail) == (1, {"error": "RuntimeError"})
    assert row.ended_at is not None
    assert runner.run_job_pass(job(answers(PassReport()))).outcome is PassOutcome.DONE


@pytest.mark.contract("DPP-46")
def test_dpp_46_a_lost_session_leaves_a_row_without_end_and_no_lock() -> None:
    def once(*, now: datetime, limit: int) -> PassReport:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return PassReport()

    assert runner.run_job_pass(job(once)).outcome in (PassOutcome.FAILED, PassOutcome.UNAVAILABLE)
    connection.close()
    assert runner.run_job_pass(job(answers(PassReport()))).outcome is PassOutcome.DONE


@pytest.mark.contract("DPP-46")
def test_dpp_46_without_a_database_nothing_runs_and_nothing_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError("connection refused")

    def once(*, now: datetime, limit: int) -> PassReport:
        pytest.fail("ran without its lock")

    monkeypatch.setattr(connection, "cursor", away)
    assert runner.run_job_pass(job(once)).outcome is PassOutcome.UNAVAILABLE


def test_dpp_46_a_dry_run_runs_the_preview_alone() -> None:
    def once(*, now: datetime, limit: int) -> PassReport:
        pytest.fail("changed something")

    assert runner.run_job_pass(job(once, preview=answers(PassReport(seen=4))), dry_run=True).report == PassReport(
        seen=4
    )
    assert JobReport.objects.get().dry_run is True
    with pytest.raises(ValueError, match="no preview"):
        runner.run_job_pass(job(once), dry_run=True)


def test_dpp_46_old_reports_are_deleted_by_the_daily_cleanup(clock: FixedClock) -> None:
    made = {
        days: JobReport.objects.create(job="probe", started_at=START - timedelta(days=days), host="h", pid=1).pk
        for days in (29, 30, 31, 40)
    }
    at_work = JobReport.objects.create(
        job="hung", started_at=START - timedelta(days=31), host="h", pid=1, beat_at=START - timedelta(days=31)
    )
    cleaned = ("data", "clean", "--kind", "job_reports")
    assert call(*cleaned, "--dry-run")["changed"] == 2
    assert JobReport.objects.filter(job="probe").count() == 4
    assert call(*cleaned, "--limit", "1")["changed"] == 1
    assert call(*cleaned)["changed"] == 1
    assert set(JobReport.objects.filter(job="probe").values_list("pk", flat=True)) == {made[29], made[30]}
    assert JobReport.objects.filter(pk=at_work.pk).exists()


@pytest.mark.contract("HRD-08")
def test_dpp_46_old_reports_go_though_the_pass_is_late(clock: FixedClock) -> None:
    """A pass that begins late still does some of its work; one that never did would never catch up."""
    JobReport.objects.create(job="probe", started_at=START - timedelta(days=31), host="h", pid=1)
    with deadline.within_deadline(deadline.Pass(seconds=0)):
        assert cleaning.clean_now(now=clock.now(), limit=10, only="job_reports").changed == 1


@pytest.mark.contract("HRD-08")
def test_dpp_46_a_clock_that_is_set_back_leaves_a_report(clock: FixedClock) -> None:
    def once(*, now: datetime, limit: int) -> PassReport:
        clock.advance(seconds=-3_600)
        return PassReport(seen=1)

    assert runner.run_job_pass(job(once)).outcome is PassOutcome.DONE
    row = JobReport.objects.get()
    assert (row.started_at, row.ended_at, row.seen) == (START, START, 1)


def call(*arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command(*arguments, "--json", stdout=out)
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


@pytest.mark.contract("DPP-76")
def test_dpp_76_run_job_answers_by_exit_code(known: dict[str, Job]) -> None:
    known["fine"] = job(answers(PassReport(seen=3)), name="fine")
    known["sick"] = job(answers(PassReport(errors=2)), name="sick")
    assert call("run_job", "fine", "--limit", "3") == {
        "job": "fine", "outcome": "done", "seen": 3, "changed": 0, "errors": 0, "detail": {}, "dry_run": False
    }  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        call("run_job", "sick")
    assert ended.value.code == 1
    for arguments in (("unheard_of",), ("fine", "--dry-run"), ("fine", "--limit", "0")):
        with pytest.raises(CommandError) as refused:
            call("run_job", *arguments)
        assert refused.value.returncode == 1


@pytest.mark.contract("DPP-76")
def test_dpp_76_run_job_says_75_when_the_job_is_already_running(known: dict[str, Job]) -> None:
    codes: list[Any] = []

    def second() -> None:
        try:
            call("run_job", "probe")
        except SystemExit as ended:
            codes.append(ended.code)
        connection.close()

    def once(*, now: datetime, limit: int) -> PassReport:
        other = threading.Thread(target=second)
        other.start()
        other.join(10)
        return PassReport()

    known["probe"] = job(once)
    assert call("run_job", "probe")["outcome"] == "done"
    assert codes == [75]


@pytest.mark.contract("DPP-76")
def test_dpp_76_jobs_lists_every_job_with_its_last_report(clock: FixedClock) -> None:
    assert [found["last"] for found in call("jobs")["jobs"] if found["job"] == "data_cleanup"] == [None]
    call("run_job", "data_cleanup")
    clock.advance(seconds=90)
    found = {found["job"]: found for found in call("jobs")["jobs"]}["data_cleanup"]
    assert (found["every_seconds"], found["last"]["age_seconds"], found["last"]["errors"]) == (60, 90, 0)
    assert time_source.now() == START + timedelta(seconds=90)


@pytest.mark.contract("DPP-74")
def test_dpp_74_the_metrics_give_each_jobs_age(clock: FixedClock) -> None:
    call("run_job", "data_cleanup")
    call("run_job", "data_cleanup", "--dry-run")
    clock.advance(seconds=75)
    JobReport.objects.create(job="data_cleanup", started_at=clock.now(), host="h", pid=1)  # died
    found = {
        sample.name: sample.value for metric in collect_job_ages() for sample in metric.samples if _own(sample.labels)
    }
    assert found == {
        "dpp_job_age_seconds": 75.0,
        "dpp_job_interval_seconds": 60,
        "dpp_job_last_changed": 0,
        "dpp_job_last_errors": 0,
    }


def _own(labels: dict[str, str]) -> bool:
    return labels == {"job": "data_cleanup"}
