"""What automations have to tell a person of: what fails by a fault of the platform's own, as long as it does."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from django.db.models.functions import Now

from dpp_project.lifecycle.alarming import AlarmCheck
from ops.automations.models import AutomationAttempt, AutomationEvent, AutomationTask
from ops.automations.states import AttemptStatus, EventStatus, TaskStatus
from ops.automations.tasks import faults

COUNTED_MAX: Final = 1_000
"""Of each; more are counted as so many."""


def failing_sources_and_rules() -> Mapping[str, str]:
    """By source, and by rule."""
    again = {"waits_for": faults.ERROR, "faults__gte": faults.TOLD_AT}
    events = AutomationEvent.objects.filter(status=EventStatus.PENDING, rule__isnull=True, **again)
    tasks = AutomationTask.objects.exclude(status=TaskStatus.COMPLETED).filter(**again)
    attempts = AutomationAttempt.objects.filter(
        status__in=[AttemptStatus.OPEN, AttemptStatus.RUNNING],
        reason__startswith=faults.ERROR,
        unavailable_since__lt=Now() - faults.TOLD_AFTER,
    )
    runs = attempts.values_list("task__rule__name", flat=True)
    return {
        **_automation_alarm_texts(
            "events of", "not dispatched", events.values_list("source__name", flat=True)[:COUNTED_MAX]
        ),
        **_automation_alarm_texts(
            "tasks of", "without a next attempt", tasks.values_list("rule__name", flat=True)[:COUNTED_MAX]
        ),
        **_automation_alarm_texts("runs of", "not bought, or not noted", runs[:COUNTED_MAX]),
    }


def _automation_alarm_texts(whose: str, what: str, names: Iterable[str]) -> dict[str, str]:
    return {
        f"{whose} {name}": f"{count} {what}, by a fault of the platform's own; the log has it"
        for name, count in Counter(names).items()
    }


CHECKS: Final = (
    AlarmCheck(
        name="automations_failing",
        means="Events or tasks of automations fail by a fault of the platform's own.",
        look=failing_sources_and_rules,
    ),
)
