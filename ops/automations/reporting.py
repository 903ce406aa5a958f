"""The daily report, what stands too long, and alarms: each said once. The report is why there is no archive.

The report of a date is queued at the first pass at or after 09:00 of the next one, in DPP_REPORT_TIME_ZONE. Its message
has the date as key, and the notice stays longer than the message: of two passes at once, and of a pass a week late, one
message comes. Dates that no pass saw are not made up for.

An alarm of the platform is said when it is found and when it is over, by its row; one that came and went between two
passes is not. Where the place for what is said is not set, nothing is noted: what stands is said once it is set.

A pass says so many at most, and asks only for what has no notice: what was said and still stands takes no place from
what was not. Notices go after 30 days, so that what stands a month longer is said again.
"""

from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Avg, Count, Exists, F, OuterRef, Q, Sum, TextField, Value
from django.db.models.functions import Cast, Concat, Now

from budget.money import format_exact_usd
from dpp_project.jobs.registry import PassReport
from dpp_project.jobs.skipped_rows import SkippedRows
from dpp_project.lifecycle.models import Alarm
from dpp_project.outbox.models import EventDeadLetter
from ops.automations.models import (
    AutomationEvent,
    AutomationMessage,
    AutomationNotice,
    AutomationTask,
    AwaitedAnswer,
    ThreadMapping,
)
from ops.automations.notify import telling
from ops.automations.states import MessageKind, MessageStatus, TaskOutcome
from reaper.models import DeadLetter

log = structlog.get_logger("dpp.automations")

REPORT_AT: Final = time(9)
STALE_DAYS: Final = 7
SAID_AT_ONCE: Final = 100
"""Of each kind in a pass. The rest is said by the next ones, a minute later each."""
ALARM_OVER_FOR: Final = timedelta(days=1)
_FOR_EVER: Final = timedelta(days=36_500)


def report_automations(*, now: datetime, limit: int) -> PassReport:
    """Each part is on its own: an alarm is said though the report cannot be made."""
    del limit
    parts = {
        "reports": partial(report_due, now=now),
        "stale": partial(warn_of_stale, now=now),
        "alarms": partial(tell_of_alarms),
    }
    skipped, said = SkippedRows("automations_report"), dict.fromkeys(parts, 0)
    for part, say in parts.items():
        with skipped.each(part):
            said[part] = say()
    count = sum(said.values())
    return PassReport(seen=count, changed=count, errors=skipped.errors, detail={**said, **skipped.detail})


def report_due(*, now: datetime) -> int:
    zone = ZoneInfo(settings.REPORT_TIME_ZONE)
    local = now.astimezone(zone)
    if local.time() < REPORT_AT:
        return 0
    day = local.date() - timedelta(days=1)
    with transaction.atomic():
        if not telling.is_first(f"report:{day.isoformat()}", within=_FOR_EVER):
            return 0
        body = report_of(day, zone)
        log.info("automations of a day", report=body)
        telling.tell_platform(body=body, kind=MessageKind.REPORT, key=f"report:{day.isoformat()}")
    return 1


def report_of(day: date, zone: ZoneInfo) -> str:
    """The core metrics of one local date."""
    begins = datetime.combine(day, time(), tzinfo=zone)
    ends = datetime.combine(day + timedelta(days=1), time(), tzinfo=zone)
    events = AutomationEvent.objects.filter(seen_at__gte=begins, seen_at__lt=ends)
    by_outcome = dict(
        events.filter(outcome__isnull=False).values_list("outcome").annotate(count=Count("pk")).order_by("outcome")
    )
    tasks = AutomationTask.objects.filter(completed_at__gte=begins, completed_at__lt=ends).aggregate(
        ended=Count("pk"),
        failed=Count("pk", filter=Q(outcome=TaskOutcome.FAILED)),
        runs=Sum("attempts"),
        charged=Sum("charged_usd_micros"),
        took=Avg(F("completed_at") - F("created_at")),
    )
    messages = AutomationMessage.objects.filter(ended_at__gte=begins, ended_at__lt=ends).aggregate(
        sent=Count("pk", filter=Q(status=MessageStatus.SENT)), failed=Count("pk", filter=Q(status=MessageStatus.FAILED))
    )
    letters = [
        of.objects.filter(stored_at__gte=begins, stored_at__lt=ends).count() for of in (DeadLetter, EventDeadLetter)
    ]
    begun = Alarm.objects.filter(began_at__gte=begins, began_at__lt=ends).count()
    took = "" if tasks["took"] is None else f", {tasks['took'].total_seconds():.1f} s on average"
    outcomes = "".join(f", {count} {outcome}" for outcome, count in by_outcome.items())
    return (
        f"Automations on {day.isoformat()}\n"
        f"events: {events.count()} seen{outcomes}\n"
        f"tasks: {tasks['ended']} ended, {tasks['failed']} failed{took}\n"
        f"runs: {tasks['runs'] or 0}, {format_exact_usd(tasks['charged'] or 0)} USD\n"
        f"messages: {messages['sent']} sent, {messages['failed']} failed\n"
        f"dead letters: {letters[0]} of runs, {letters[1]} of events\n"
        f"alarms: {begun} begun, {Alarm.objects.filter(ended_at__isnull=True).count()} stand"
    )


def warn_of_stale(*, now: datetime) -> int:
    """Mappings whose task should have ended, and answers that have not come: over seven days old, each said once."""
    before = now - timedelta(days=STALE_DAYS)
    warned = 0
    for what, rows in (
        ("thread mapping", ThreadMapping.objects.filter(created_at__lt=before)),
        ("awaited answer", AwaitedAnswer.objects.filter(created_at__lt=before)),
    ):
        unsaid = rows.filter(~_has_notice(f"stale:{what}:"))
        for row in unsaid.select_related("task").order_by("created_at")[:SAID_AT_ONCE]:
            with transaction.atomic():
                if not telling.is_first(f"stale:{what}:{row.pk}", within=_FOR_EVER):
                    continue
                said = f"{what} of {row.task.number} ({row.task.status}) is older than {STALE_DAYS} days"
                log.warning("automation row is stale", what=what, task=row.task.number)
                telling.tell_platform(body=said, kind=MessageKind.ALARM, key=f"stale:{what}:{row.pk}")
                warned += 1
    return warned


def tell_of_alarms() -> int:
    """Of the platform, to its place: once when one is found, once when one that was said is over."""
    if telling.platform_place() is None:
        return 0
    found = Alarm.objects.filter(~_has_notice("alarm:"), ended_at__isnull=True)
    over = Alarm.objects.filter(_has_notice("alarm:"), ~_has_notice("alarm-over:"), ended_at__gt=Now() - ALARM_OVER_FOR)
    told = 0
    for alarm in found.order_by("pk")[:SAID_AT_ONCE]:
        told += _tell_alarm(f"alarm:{alarm.pk}", f"Alarm {alarm.name}, {alarm.subject}: {alarm.said}")
    for alarm in over.order_by("pk")[:SAID_AT_ONCE]:
        told += _tell_alarm(f"alarm-over:{alarm.pk}", f"Alarm {alarm.name} is over, {alarm.subject}")
    return told


def _has_notice(prefix: str) -> Exists:
    """Of a row whose notice's key is the prefix and its own key. Looked for before a limit: one that was said is none
    of those that a pass takes.
    """
    key = Concat(Value(prefix), Cast(OuterRef("pk"), TextField()), output_field=TextField())
    return Exists(AutomationNotice.objects.filter(key=key))


def _tell_alarm(key: str, body: str) -> int:
    with transaction.atomic():
        if not telling.is_first(key, within=_FOR_EVER):
            return 0
        telling.tell_platform(body=body, kind=MessageKind.ALARM, key=key)
    return 1
