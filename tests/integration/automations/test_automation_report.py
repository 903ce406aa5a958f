"""The daily report comes once a local date, whatever dies; what stands too long is said once."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models.functions import Now

from dpp_project import clock, uuid7
from dpp_project.clock import FixedClock
from dpp_project.lifecycle import cleaning
from dpp_project.lifecycle.models import Alarm
from dpp_project.process_env import ENV
from ops.automations import numbers, reporting
from ops.automations.models import (
    AutomationMessage,
    AutomationNotice,
    AutomationTask,
    AwaitedAnswer,
    ThreadMapping,
)
from ops.automations.notify import telling
from reaper.models import DeadLetter
from tests.gear.builders import automations as gear

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-08")]

NINE_IN_SEOUL = datetime(2026, 3, 2, 0, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "ENV", ENV.model_copy(update={"DPP_AUTOMATIONS_NOTIFY": "slack:C09"}))


def test_the_report_of_a_date_comes_once_at_or_after_nine() -> None:
    assert reporting.report_due(now=NINE_IN_SEOUL - timedelta(seconds=1)) == 0
    for hours in (0, 1, 14):
        reporting.report_due(now=NINE_IN_SEOUL + timedelta(hours=hours))
    (report,) = AutomationMessage.objects.all()
    assert (report.kind, report.channel, report.target, report.key) == ("REPORT", "slack", "C09", "report:2026-03-01")
    assert report.body.startswith("Automations on 2026-03-01\nevents: 0 seen\ntasks: 0 ended, 0 failed\n")
    report.delete()
    assert reporting.report_due(now=NINE_IN_SEOUL + timedelta(hours=2)) == 0
    assert reporting.report_due(now=NINE_IN_SEOUL + timedelta(days=1)) == 1
    assert AutomationMessage.objects.get().key == "report:2026-03-02"


def test_the_report_counts_dead_letters_and_alarms() -> None:
    within = NINE_IN_SEOUL - timedelta(hours=20)
    for number, at in enumerate((within, within - timedelta(days=1))):
        letter = DeadLetter.objects.create(
            message_id=f"m-{number}",
            outcome="KEPT",
            run_id=uuid7.new_uuid7(),
            size_bytes=1,
            sha256="a" * 64,
            receives=4,
        )
        DeadLetter.objects.filter(pk=letter.pk).update(stored_at=at)
        Alarm.objects.create(name="disk_filling", subject=f"disk {number}", said="it fills")
    Alarm.objects.update(began_at=within)
    Alarm.objects.filter(subject="disk 0").update(ended_at=Now())
    reporting.report_due(now=NINE_IN_SEOUL)
    body = AutomationMessage.objects.get().body
    assert body.endswith("\ndead letters: 1 of runs, 0 of events\nalarms: 2 begun, 1 stand")


@pytest.mark.contract("LIF-08", "LIF-10")
def test_lif_10_an_alarm_is_said_when_it_is_found_and_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    alarm = Alarm.objects.create(name="disk_filling", subject="/ at host", said="full in 3 days")
    missed = Alarm.objects.create(name="process_silent", subject="worker 7", said="its heartbeat stopped")
    Alarm.objects.filter(pk=missed.pk).update(ended_at=Now())
    with monkeypatch.context() as without:
        without.setattr(telling, "ENV", ENV.model_copy(update={"DPP_AUTOMATIONS_NOTIFY": None}))
        assert reporting.report_automations(now=NINE_IN_SEOUL - timedelta(hours=1), limit=10).detail["alarms"] == 0
    assert [reporting.tell_of_alarms() for _ in range(2)] == [1, 0]
    Alarm.objects.filter(pk=alarm.pk).update(ended_at=Now())
    assert [reporting.tell_of_alarms() for _ in range(2)] == [1, 0]
    Alarm.objects.create(name="disk_filling", subject="/ at host", said="full tomorrow")
    assert reporting.tell_of_alarms() == 1, "found again, it is another"
    messages = AutomationMessage.objects.order_by("message_id").values_list("kind", "target", "body")
    assert list(messages) == [
        ("ALARM", "C09", "Alarm disk_filling, / at host: full in 3 days"),
        ("ALARM", "C09", "Alarm disk_filling is over, / at host"),
        ("ALARM", "C09", "Alarm disk_filling, / at host: full tomorrow"),
    ]


def test_lif_08_a_mapping_or_an_answer_over_seven_days_old_is_said_once() -> None:
    source = gear.source()
    event, rule = gear.event(source), gear.bare_rule(source)
    task = AutomationTask.objects.get(pk=gear.bare_task(event, rule))
    ThreadMapping.objects.create(task=task, channel="slack", target="C01", thread="1")
    AwaitedAnswer.objects.create(task=task, channel="slack", target="C01", thread="2")
    assert reporting.warn_of_stale(now=clock.now()) == 0
    for table in (ThreadMapping, AwaitedAnswer):
        table.objects.update(created_at=Now() - timedelta(days=8))
    assert [reporting.warn_of_stale(now=clock.now()) for _ in range(2)] == [2, 0]
    assert sorted(AutomationMessage.objects.values_list("body", flat=True)) == [
        "awaited answer of task-20260301-001 (PENDING) is older than 7 days",
        "thread mapping of task-20260301-001 (PENDING) is older than 7 days",
    ]


def test_lif_08_what_was_said_and_still_stands_keeps_nothing_younger_from_being_said() -> None:
    """An answer that nobody gives stands for ever, and a pass says a hundred."""
    source = gear.source()
    task_id = gear.bare_task(gear.event(source), gear.bare_rule(source))
    AwaitedAnswer.objects.bulk_create(
        AwaitedAnswer(task_id=task_id, channel="slack", target="C01", thread=str(number)) for number in range(101)
    )
    AwaitedAnswer.objects.update(created_at=Now() - timedelta(days=8))
    assert [reporting.warn_of_stale(now=clock.now()) for _ in range(3)] == [100, 1, 0]
    said = {f"stale:awaited answer:{pk}" for pk in AwaitedAnswer.objects.values_list("pk", flat=True)}
    assert set(AutomationMessage.objects.values_list("key", flat=True)) == said


def test_lif_08_what_stands_is_said_again_when_its_notice_has_gone() -> None:
    Alarm.objects.create(name="disk_filling", subject="/ at host", said="full in 3 days")
    assert [reporting.tell_of_alarms() for _ in range(2)] == [1, 0]
    AutomationNotice.objects.update(told_at=Now() - timedelta(days=31))
    AutomationMessage.objects.all().delete()
    assert cleaning.clean_now(now=clock.now(), limit=10, only="automation_notices").changed == 1
    assert [reporting.tell_of_alarms() for _ in range(2)] == [1, 0]


@pytest.mark.contract("LIF-08", "LIF-10")
def test_lif_10_alarms_that_were_said_keep_no_other_from_being_said() -> None:
    """One that comes and goes each minute leaves as many rows as a day has minutes."""
    Alarm.objects.bulk_create(
        Alarm(name="disk_filling", subject=f"disk {number}", said="it fills") for number in range(101)
    )
    assert [reporting.tell_of_alarms() for _ in range(3)] == [100, 1, 0]
    Alarm.objects.update(ended_at=Now())
    assert [reporting.tell_of_alarms() for _ in range(3)] == [100, 1, 0]
    bodies = set(AutomationMessage.objects.values_list("body", flat=True))
    assert bodies == {
        said
        for number in range(101)
        for said in (f"Alarm disk_filling, disk {number}: it fills", f"Alarm disk_filling is over, disk {number}")
    }


@pytest.mark.parametrize("part", ["report_due", "warn_of_stale", "tell_of_alarms"])
def test_lif_08_a_part_that_fails_keeps_no_other_from_being_said(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = gear.source()
    task_id = gear.bare_task(gear.event(source), gear.bare_rule(source))
    AwaitedAnswer.objects.create(task_id=task_id, channel="slack", target="C01", thread="2")
    AwaitedAnswer.objects.update(created_at=NINE_IN_SEOUL - timedelta(days=8))
    Alarm.objects.create(name="disk_filling", subject="/ at host", said="full in 3 days")

    def fails(**_: object) -> int:
        raise ValueError(part)

    name = {"report_due": "reports", "warn_of_stale": "stale", "tell_of_alarms": "alarms"}[part]
    with monkeypatch.context() as patched:
        patched.setattr(reporting, part, fails)
        report = reporting.report_automations(now=NINE_IN_SEOUL, limit=10)
    others = dict.fromkeys(("reports", "stale", "alarms"), 1) | {name: 0}
    assert (report.changed, report.errors) == (2, 1)
    assert report.detail == {**others, "skipped": {name: "ValueError"}}
    again = reporting.report_automations(now=NINE_IN_SEOUL, limit=10)
    assert (again.changed, again.errors, again.detail[name]) == (1, 0, 1)


@pytest.mark.contract("LIF-02")
def test_lif_02_numbers_begin_anew_each_local_date_and_none_is_given_twice() -> None:
    """Read, raised and written back by two at once, the document's `task-seq` gives a number twice."""
    with clock.use_clock(FixedClock(datetime(2026, 3, 1, 14, 59, tzinfo=UTC))) as now:
        assert [numbers.next_number("task") for _ in range(2)] == ["task-20260301-001", "task-20260301-002"]
        assert numbers.next_number("msg") == "msg-20260301-001"
        assert isinstance(now, FixedClock)
        now.advance(seconds=60)
        assert numbers.next_number("task") == "task-20260302-001"
        now.advance(seconds=-60)
        assert numbers.next_number("task") == "task-20260301-003"
