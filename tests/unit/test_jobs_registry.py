"""Jobs and retention periods are declared once, where their app is."""

import re
from datetime import UTC, datetime

import pytest

from dpp_project import retention
from dpp_project.celery import app
from dpp_project.jobs import registry
from dpp_project.jobs.registry import Job, PassReport, UnknownJob
from dpp_project.lifecycle import jobs as own
from tests.gear import source


def test_the_declared_jobs_are_found_by_name() -> None:
    assert registry.job_named("data_cleanup") is own.CLEANUP
    assert list(registry.declared_jobs()) == sorted(registry.declared_jobs())
    with pytest.raises(UnknownJob, match="data_cleanup"):
        registry.job_named("unheard_of")


EVERY = re.compile(r"^\| `([a-z_]+)` \| ([0-9,]+) (s|min|h)\b", re.MULTILINE)
SECONDS = {"s": 1, "min": 60, "h": 3_600}


@pytest.mark.contract("CAP-11")
def test_the_docs_say_how_often_a_job_comes() -> None:
    """What comes late is told late: `cap.reached` within 30 seconds is its job's interval."""
    said: dict[str, int] = {}
    for page in (source.REPOSITORY / "docs").glob("*.md"):
        for name, number, unit in EVERY.findall(page.read_text(encoding="utf-8")):
            said[name] = int(number.replace(",", "")) * SECONDS[unit]
    found = {name: job.every_seconds for name, job in registry.declared_jobs().items()}
    assert said == {name: found[name] for name in said}
    assert len(said) >= 16
    assert said["cap_alerts"] == 30


@pytest.mark.parametrize("wrong", [{"every_seconds": 0}, {"limit": 0}])
def test_a_job_without_interval_or_limit_is_refused(wrong: dict[str, int]) -> None:
    def once(*, now: datetime, limit: int) -> PassReport:
        return PassReport()

    given = {"every_seconds": 30, "limit": 1} | wrong
    with pytest.raises(ValueError, match="must be positive"):
        Job(name="x", summary="x", run_once=once, every_seconds=given["every_seconds"], limit=given["limit"])


def test_two_jobs_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "JOBS", own.JOBS * 2)
    registry.declared_jobs.cache_clear()
    try:
        with pytest.raises(ValueError, match="two jobs are called data_cleanup"):
            registry.declared_jobs()
    finally:
        monkeypatch.undo()
        registry.declared_jobs.cache_clear()


def test_a_period_is_declared_once_and_gives_the_cutoff() -> None:
    now = datetime(2026, 3, 31, tzinfo=UTC)
    assert retention.days_of("job_reports") == 30
    assert retention.retention_cutoff("job_reports", now=now) == datetime(2026, 3, 1, tzinfo=UTC)
    with pytest.raises(ValueError, match="has no period"):
        retention.retention_cutoff("tenants", now=now)


@pytest.mark.contract("DPP-38")
def test_dpp_38_celery_is_set_so_that_no_message_is_lost_or_grows_old() -> None:
    conf = app.conf
    wanted = {
        "task_acks_late": True,
        "task_acks_on_failure": False,
        "worker_prefetch_multiplier": 1,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "task_create_missing_queues": False,
        "task_ignore_result": True,
        "accept_content": ["json"],
        "worker_pool": "dpp_project.celery_sqs.slots:TaskPool",
    }
    assert {name: conf[name] for name in wanted} == wanted
    assert list(conf.broker_transport_options["predefined_queues"]) == [conf.task_default_queue]
    assert [queue.name for queue in conf.task_queues] == [conf.task_default_queue]
