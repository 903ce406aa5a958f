"""Automations on the console's first page: what waits, what failed, what could not be said."""

from datetime import timedelta

from django.db.models import QuerySet
from django.urls import reverse

from dpp_project import clock
from dpp_project.console.dashboard import Figure, Panel, dashboard_panel
from ops.automations.models import AutomationEvent, AutomationMessage, AutomationTask
from ops.automations.states import EventStatus, MessageStatus, TaskOutcome, TaskStatus

COUNTED_MAX = 1_000
"""More are shown as such: the page must not count a million."""


@dashboard_panel(title="Automations", order=88, permission="automations.view_automationevent")
def automations_panel() -> Panel:
    since = clock.now() - timedelta(days=1)
    waiting = AutomationEvent.objects.filter(status=EventStatus.PENDING)
    bound = waiting.exclude(waits_for="")
    failed = AutomationTask.objects.filter(
        status=TaskStatus.COMPLETED, outcome=TaskOutcome.FAILED, completed_at__gte=since
    )
    unsaid = AutomationMessage.objects.filter(status=MessageStatus.FAILED, ended_at__gte=since)
    events, tasks = (reverse(f"admin:automations_automation{name}_changelist") for name in ("event", "task"))
    messages = reverse("admin:automations_automationmessage_changelist")
    return Panel(
        title="Automations",
        description="What happened elsewhere, the runs that rules bought for it, and what was said.",
        figures=[
            Figure(
                label="Events waiting",
                value=_automation_count_text(waiting),
                note=f"{_automation_count_text(bound)} for a bound of their rule.",
                link=f"{events}?status__exact=PENDING",
            ),
            Figure(
                label="Tasks at work",
                value=_automation_count_text(AutomationTask.objects.exclude(status=TaskStatus.COMPLETED)),
                link=f"{tasks}?status__exact=IN_PROGRESS",
            ),
            Figure(
                label="Tasks failed in 24 h",
                value=_automation_count_text(failed),
                link=f"{tasks}?outcome__exact=FAILED",
            ),
            Figure(
                label="Messages failed in 24 h",
                value=_automation_count_text(unsaid),
                link=f"{messages}?status__exact=FAILED",
            ),
        ],
    )


def _automation_count_text(
    rows: QuerySet[AutomationEvent] | QuerySet[AutomationTask] | QuerySet[AutomationMessage],
) -> str:
    count = rows.order_by("pk")[: COUNTED_MAX + 1].count()
    return f"more than {COUNTED_MAX}" if count > COUNTED_MAX else str(count)
