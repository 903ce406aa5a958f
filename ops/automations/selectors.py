"""What operators read of automations, newest first."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from ops.automations.models import AutomationEvent, AutomationMessage, AutomationRule, AutomationTask


@dataclass(frozen=True, slots=True)
class AutomationPage:
    """`next` is the id below which the next page begins."""

    rows: Sequence[Any]
    next: uuid.UUID | None


def list_automation_rules() -> QuerySet[AutomationRule]:
    """In the order in which they are asked; ended ones are not shown."""
    return AutomationRule.objects.select_related("source").filter(ended_at__isnull=True)


def list_automation_events(**wanted: Any) -> QuerySet[AutomationEvent]:
    return _narrowed(AutomationEvent.objects.select_related("source", "rule"), wanted).order_by("-event_pk")


def list_automation_tasks(**wanted: Any) -> QuerySet[AutomationTask]:
    return _narrowed(AutomationTask.objects.select_related("rule"), wanted).order_by("-task_id")


def task_of(reference: str) -> AutomationTask | None:
    """By its id, or by the number that people know."""
    rows = AutomationTask.objects.select_related("rule", "event")
    try:
        return rows.filter(pk=uuid.UUID(reference)).first()
    except ValueError:
        return rows.filter(number=reference).first()


def list_automation_messages(**wanted: Any) -> QuerySet[AutomationMessage]:
    return _narrowed(AutomationMessage.objects.select_related("task", "rule"), wanted).order_by("-message_id")


def page_of_automation_rows(rows: QuerySet[Any], *, below: uuid.UUID | None, limit: int) -> AutomationPage:
    """One more is read than shown, to know whether there is a next page."""
    found = list((rows if below is None else rows.filter(pk__lt=below))[: limit + 1])
    return AutomationPage(found[:limit], found[limit - 1].pk if len(found) > limit else None)


def _narrowed(rows: QuerySet[Any], wanted: dict[str, Any]) -> QuerySet[Any]:
    return rows.filter(**{name: value for name, value in wanted.items() if value is not None})
