"""What is left after forty days equals the document's table, row by row; what is in use stays, however old."""

from typing import Any, Final

import pytest
from django.db import connection
from django.db.models.functions import Now

from dpp_project import clock, retention, uuid7
from dpp_project.lifecycle import cleaning
from ops.automations import transitions
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
        for number in range(20):
            event = gear.event(self.source, f"e-{self.count}-{number}")
            if number >= 15:
                self.ended(event, EventOutcome.NO_RULE)
                continue
            task = self.task(event)
            self.end(task)
            for _ in range(2):
                self.sent(task)
        self.count += 1

    def task(self, event: AutomationEvent) -> AutomationTask:
        transitions.dispatch(event_pk=event.pk, version=event.version, rule_id=self.rule.pk)
        made = gear.bare_task(event, self.rule, number=f"task-{uuid7.new()}", inputs={"text": "x"})
        return AutomationTask.objects.get(pk=made)

    def end(self, task: AutomationTask) -> None:
        done = transitions.complete_task(task_id=task.pk, version=task.version, outcome=TaskOutcome.SUCCEEDED)
        assert done is transitions.CasOutcome.WON
        AutomationResult.objects.create(
            task=task, rule_id=task.rule_id, outcome="SUCCEEDED", data={"a": 1}, session_log={"logs": []}
        )
        self.ended(AutomationEvent.objects.get(pk=task.event_id), EventOutcome.SUCCEEDED)

    def ended(self, event: AutomationEvent, outcome: EventOutcome) -> None:
        transitions.complete_event(event_pk=event.pk, version=event.version, outcome=outcome)

    def sent(self, task: AutomationTask) -> None:
        made = self.message(task)
        AutomationMessage.objects.filter(pk=made.pk).update(status="SENT", ended_at=Now(), version=made.version + 1)

    def message(self, task: AutomationTask) -> AutomationMessage:
        return messaging.queue_message(task=task, channel=MessageChannel.SLACK, target="C01", body="done")


def left() -> dict[str, int]:
    tables = (AutomationEvent, AutomationTask, AutomationResult, AutomationMessage, SeenEvent, NumberOfDay)
    counts = {table.__name__: table.objects.count() for table in tables}
    counts["prompts"] = AutomationTask.objects.filter(inputs__isnull=False).count()
    counts["session logs"] = AutomationResult.objects.filter(session_log__isnull=False).count()
    return counts


def test_lif_03_forty_days_leave_what_the_table_says() -> None:
    court = Court()
    for _ in range(DAYS):
        court.day()
        age()
        clear()
    # The newest day is a day old: of a period of 7 days six whole ones are left, the seventh is just over.
    found = left()
    assert found.pop("NumberOfDay") in {29, 30}  # its date may be a day ahead of UTC's
    assert found == {
        "AutomationEvent": 6 * 20,
        "AutomationTask": 6 * 15,
        "AutomationResult": 6 * 15,
        "AutomationMessage": 6 * 30,
        "SeenEvent": 29 * 20,
        "prompts": 2 * 15,
        "session logs": 6 * 15,
    }


def test_lif_03_again_nothing_more_goes_and_a_dry_run_takes_nothing() -> None:
    court = Court()
    court.day()
    age(8)
    before = left()
    due = cleaning.due(now=clock.now(), limit=1_000)
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
    assert set(SeenEvent.objects.values_list("event_id", flat=True)) == {"waits", "open"}
    AwaitedAnswer.objects.all().delete()
    AutomationMessage.objects.update(status="SENT", ended_at=gear.AT, version=1)
    clear()
    assert set(AutomationTask.objects.values_list("pk", flat=True)) == {opened.pk}
    assert set(AutomationEvent.objects.values_list("pk", flat=True)) == {waiting.pk, opened.event_id}


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


def test_periods_are_the_documents() -> None:
    named = {
        name: retention.days_of(name)
        for name in retention.kinds()
        if name.startswith(("automation", "seen")) and retention.kinds()[name].clearing is not None
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
