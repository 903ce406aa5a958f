"""What is left after forty days equals the document's table, row by row; what is in use stays, however old."""

from collections import Counter
from typing import Any, Final

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from dpp_project import clock, retention, uuid7
from dpp_project.env import Environment
from dpp_project.lifecycle import cleaning
from dpp_project.process_env import ENV
from ops.automations import transitions
from ops.automations.emitting import Emission
from ops.automations.models import (
    AutomationAttempt,
    AutomationEvent,
    AutomationMessage,
    AutomationNotice,
    AutomationResult,
    AutomationRule,
    AutomationSource,
    AutomationTask,
    AwaitedAnswer,
    NumberOfDay,
    SeenEvent,
    ThreadMapping,
)
from ops.automations.notify import messaging
from ops.automations.states import EventOutcome, MessageChannel, TaskOutcome
from ops.automations.tasks import ending
from ops.automations.tasks.ending import RunAnswer
from runs.models import Run, RunInputs
from tests.gear.builders import automations as gear
from tests.gear.builders import runs as run_gear
from tests.gear.builders.tenants import a_tenant

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-03")]

DAYS: Final = 40
AGED: Final = {
    "automation_event": ("occurred_at", "seen_at", "next_try_at", "dispatched_at", "completed_at"),
    "automation_task": ("created_at", "started_at", "completed_at"),
    "automation_attempt": ("began_at", "accepted_at", "ended_at"),
    "automation_result": ("created_at",),
    "automation_message": ("created_at", "ended_at"),
    "automation_thread_mapping": ("created_at",),
    "automation_awaited_answer": ("created_at",),
    "automation_notice": ("told_at",),
    "seen_event": ("at",),
}


def age(days: int = 1) -> None:
    """A day passes for every row. The guards against changes stand aside for the clock alone."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        for table, columns in AGED.items():
            moved = ", ".join(f"{column} = {column} - make_interval(days => %(days)s)" for column in columns)
            cursor.execute(f"UPDATE {table} SET {moved}", {"days": days})  # noqa: S608
        for moved_days in (-40_000, 40_000 - days):  # the dates follow one another, and no two may meet on the way
            cursor.execute("UPDATE automation_number SET day = day + %s", [moved_days])
        cursor.execute("UPDATE automation_message SET number = 'aged-' || message_id")
        cursor.execute("SET session_replication_role = DEFAULT")


def clear() -> Any:
    return cleaning.clean_now(now=clock.now(), limit=50_000)


class Court:
    """A day of the document: 20 events, 15 of them tasks, 30 messages."""

    def __init__(self) -> None:
        self.source: AutomationSource = gear.source()
        self.rule: AutomationRule = gear.bare_rule(self.source)
        self.count = 0

    def day(self) -> None:
        """The last of its tasks fails, and so do its messages."""
        for number in range(20):
            event = gear.event(self.source, f"{self.count} {number}", thread=f"{self.count}")
            if number >= 15:
                self.ended(event, EventOutcome.NO_RULE)
                continue
            task = self.task(event)
            ThreadMapping.objects.create(task=task, channel="slack", target="C01", thread=str(number))
            failed = number == 14
            self.end(task, TaskOutcome.FAILED if failed else TaskOutcome.SUCCEEDED)
            for _ in range(2):
                self.sent(task, "FAILED" if failed else "SENT")
        self.count += 1

    def task(self, event: AutomationEvent) -> AutomationTask:
        transitions.mark_event_dispatched(event_pk=event.pk, version=event.version, rule_id=self.rule.pk)
        made = gear.bare_task(event, self.rule, number=f"task-{uuid7.new_uuid7()}", inputs={"text": "x"})
        return AutomationTask.objects.get(pk=made)

    def end(self, task: AutomationTask, outcome: TaskOutcome = TaskOutcome.SUCCEEDED) -> None:
        answer = RunAnswer(data={"a": 1}, session_log={"logs": []})
        with transaction.atomic():
            ending._finish(task.pk, outcome=outcome, reason="", run_id=None, answer=answer)

    def ended(self, event: AutomationEvent, outcome: EventOutcome) -> None:
        transitions.complete_event(event_pk=event.pk, version=event.version, outcome=outcome)

    def sent(self, task: AutomationTask, status: str = "SENT") -> None:
        made = self.message(task)
        AutomationMessage.objects.filter(pk=made.pk).update(status=status, ended_at=Now(), version=made.version + 1)

    def message(self, task: AutomationTask) -> AutomationMessage:
        return messaging.queue_message(
            task=task, channel=MessageChannel.SLACK, target="C01", body=task.thread or "done"
        )


def left() -> dict[str, dict[str, int]]:
    """Of each row of the document's table: how many are left of which day."""
    rows: dict[str, Any] = {
        "events": AutomationEvent.objects.values_list("thread"),
        "tasks": AutomationTask.objects.values_list("thread"),
        "results": AutomationResult.objects.values_list("thread"),
        "messages": AutomationMessage.objects.values_list("body"),
        "prompts": AutomationTask.objects.filter(inputs__isnull=False).values_list("thread"),
        "session logs": AutomationResult.objects.filter(session_log__isnull=False).values_list("thread"),
        "seen": SeenEvent.objects.values_list("event_id"),
        "thread mappings": ThreadMapping.objects.values_list("task__thread"),
    }
    return {name: dict(Counter(day.split()[0] for (day,) in found)) for name, found in rows.items()}


def test_lif_03_forty_days_leave_what_the_table_says() -> None:
    court = Court()
    for _ in range(DAYS):
        court.day()
        age()
        clear()

    def newest(days: int, *, a_day: int) -> dict[str, int]:
        return {str(day): a_day for day in range(DAYS - days, DAYS)}

    # The newest day is a day old: of a period of 7 days six whole ones are left, the seventh is just over.
    assert left() == {
        "events": newest(6, a_day=20),
        "tasks": newest(6, a_day=15),
        "results": newest(6, a_day=15),
        "messages": newest(6, a_day=30),
        "prompts": newest(2, a_day=15),
        "session logs": newest(6, a_day=15),
        "seen": newest(29, a_day=20),
        "thread mappings": {},
    }
    assert NumberOfDay.objects.count() in {29, 30}  # its date may be a day ahead of UTC's


def test_lif_03_again_nothing_more_goes_and_a_dry_run_takes_nothing() -> None:
    court = Court()
    court.day()
    age(8)
    before = left()
    due = cleaning.count_due_rows(now=clock.now(), limit=1_000)
    assert (left(), due["automation_tasks"]) == (before, 15)
    assert clear().changed > 0
    once = left()
    assert clear().changed == 0
    assert left() == once


@pytest.mark.contract("LIF-04")
def test_lif_04_what_is_in_use_stays_however_old() -> None:
    court = Court()
    waiting = gear.event(court.source, "waits")
    opened = court.task(gear.event(court.source, "open"))
    told = court.task(gear.event(court.source, "told"))
    court.end(told)
    message = court.message(told)
    asked = court.task(gear.event(court.source, "asked"))
    court.end(asked)
    AwaitedAnswer.objects.create(task=asked, channel="slack", target="C01", thread="1.1")
    age(100)
    clear()
    kept = {waiting.pk, opened.event_id, told.event_id, asked.event_id}
    assert set(AutomationEvent.objects.values_list("pk", flat=True)) == kept
    assert set(AutomationTask.objects.values_list("pk", flat=True)) == {opened.pk, told.pk, asked.pk}
    assert set(AutomationResult.objects.values_list("pk", flat=True)) == {told.pk, asked.pk}
    assert AutomationMessage.objects.get().pk == message.pk
    assert AutomationTask.objects.get(pk=opened.pk).inputs == {"text": "x"}
    assert set(SeenEvent.objects.values_list("event_id", flat=True)) == {"waits", "open", "told", "asked"}
    assert gear.emit(court.source, "asked").emission is Emission.DUPLICATE  # its source brings it again
    AwaitedAnswer.objects.all().delete()
    AutomationMessage.objects.update(status="SENT", ended_at=gear.AT, version=1)
    clear()
    assert set(AutomationTask.objects.values_list("pk", flat=True)) == {opened.pk}
    assert set(AutomationEvent.objects.values_list("pk", flat=True)) == {waiting.pk, opened.event_id}
    assert set(SeenEvent.objects.values_list("event_id", flat=True)) == {"waits", "open"}


@pytest.mark.contract("LIF-04")
def test_lif_04_days_count_from_the_end_and_not_from_the_begin() -> None:
    """What waited for a month, and ended a day ago, is as young as what took a minute."""
    court = Court()
    task = court.task(gear.event(court.source, thread="slow"))
    message = court.message(task)
    waited = gear.event(court.source, "no rule", thread="waited")
    age(31)
    court.ended(waited, EventOutcome.NO_RULE)
    court.end(task)
    AutomationMessage.objects.filter(pk=message.pk).update(status="SENT", ended_at=Now(), version=1)
    age(1)
    clear()
    found = left()
    kept = {name for name in found if found[name]}
    assert kept == {"events", "tasks", "results", "messages", "prompts", "session logs", "seen"}
    assert found["events"] == {"slow": 1, "waited": 1}
    age(7)
    clear()
    assert {name for name, rows in left().items() if rows} == set()


@pytest.mark.contract("LIF-04")
def test_lif_04_a_task_whose_run_goes_on_stays_with_its_event() -> None:
    court = Court()
    task = court.task(gear.event(court.source))
    row = {"task": task, "attempt": 1, "rule_id": court.rule.pk, "reserved_usd_micros": 1}
    attempt = AutomationAttempt.objects.create(**row, run_id=uuid7.new_uuid7(), status="RUNNING")
    court.end(task)
    age(100)
    clear()
    assert (AutomationTask.objects.count(), AutomationEvent.objects.count()) == (1, 1)
    AutomationAttempt.objects.filter(pk=attempt.pk).update(status="FAILED")
    clear()
    assert (AutomationTask.objects.count(), AutomationEvent.objects.count()) == (0, 0)
    assert AutomationAttempt.objects.count() == 0


def test_lif_03_a_run_of_an_automation_loses_its_inputs_after_three_days_and_another_does_not() -> None:
    """The run's own 30 days would keep what strangers wrote for ten times as long as the document does."""
    court, tenant = Court(), a_tenant()
    ended, working, other = (
        run_gear.committed(tenant_id=tenant.tenant_id),
        run_gear.working(tenant_id=tenant.tenant_id),
        run_gear.committed(tenant_id=tenant.tenant_id),
    )
    task = court.task(gear.event(court.source))
    for number, run in ((1, ended), (2, working)):
        AutomationAttempt.objects.create(
            task=task,
            attempt=number,
            rule_id=court.rule.pk,
            reserved_usd_micros=1,
            run_id=run.run_id,
            status="FAILED" if number == 1 else "RUNNING",
        )
    court.end(task)
    inputs = dict(RunInputs.objects.values_list("run_id", "inputs"))
    age(2)
    clear()
    assert dict(RunInputs.objects.values_list("run_id", "inputs")) == inputs
    age(2)
    clear()
    assert dict(RunInputs.objects.values_list("run_id", "inputs")) == inputs | {ended.run_id: {}}
    assert AutomationTask.objects.get().inputs is None
    assert Run.objects.get(pk=other.run_id).payload_hash == other.payload_hash


def test_lif_03_notices_go_after_thirty_days_and_mappings_with_their_task() -> None:
    court = Court()
    task = court.task(gear.event(court.source))
    ThreadMapping.objects.create(task=task, channel="slack", target="C01", thread="1")
    court.end(task)
    AutomationNotice.objects.create(key="report:2026-03-01", told_at=Now())
    age(29)
    clear()
    assert not ThreadMapping.objects.exists()
    assert AutomationNotice.objects.exists()
    age(2)
    clear()
    assert not AutomationNotice.objects.exists()


SETTINGS: Final = {
    "DPP_LOGS_DAYS": (7, {"rotated_logs"}),
    "DPP_RESULTS_DAYS": (7, {"automation_results"}),
    "DPP_QUEUE_DAYS": (7, {"automation_events", "automation_tasks", "automation_messages"}),
    "DPP_PROMPTS_DAYS": (3, {"automation_prompts"}),
    "DPP_SESSION_LOGS_DAYS": (7, {"automation_session_logs"}),
    "DPP_SEEN_DAYS": (30, {"seen_events"}),
}
"""The document's, each with its default and with what goes by it."""


def test_lif_03_the_settings_are_the_documents_and_each_moves_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = Environment.model_fields
    assert fields["DPP_LOG_MAX_MB"].default == 100
    assert {name for name in fields if name.endswith("_DAYS")} == set(SETTINGS)
    for name, (days, moves) in SETTINGS.items():
        assert fields[name].default == days
        before = {kind.name: kind.period_days for kind in retention.data_kinds().values()}
        with monkeypatch.context() as changed:
            changed.setattr(retention, "ENV", ENV.model_copy(update={name: 99}))
            after = {kind.name: kind.period_days for kind in retention.data_kinds().values()}
        assert {kind for kind in after if after[kind] != before[kind]} == moves


def test_periods_are_the_documents() -> None:
    named = {
        name: retention.days_of(name)
        for name in retention.data_kinds()
        if name.startswith(("automation", "seen")) and retention.data_kinds()[name].clearing is not None
    }
    assert named == {
        "automation_events": 7,
        "automation_tasks": 7,
        "automation_messages": 7,
        "automation_results": 7,
        "automation_prompts": 3,
        "automation_session_logs": 7,
        "seen_events": 30,
        "automation_notices": 30,
        "automation_numbers": 30,
    }
