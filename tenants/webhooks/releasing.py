"""Lets go of what a resume or a recovery began to, and ends what a deletion began to: the rest of many deliveries.

Each step is a transaction under the endpoint's row lock, so a pause in between ends the release, and two passes at
once share the work. A death leaves the mark, and the next pass goes on.
"""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from dpp_project.jobs import deadline
from dpp_project.jobs.registry import PassReport
from dpp_project.jobs.skipped_rows import SkippedRows
from tenants.webhooks import transitions
from tenants.webhooks.models import EndpointStatus, WebhookDelivery, WebhookEndpoint


def release_held_webhooks(*, now: datetime, limit: int) -> PassReport:
    skipped = SkippedRows("webhook_release")
    released = _deliveries_moved_in_turns(_releasing(), _release, skipped, now=now, limit=limit)
    ended = _deliveries_moved_in_turns(
        _deleted_with_some_waiting(), _end_some_of_deleted_webhook, skipped, now=now, limit=limit - released
    )
    changed = released + ended
    detail = {"released": released, "ended": ended, **skipped.detail}
    return PassReport(seen=changed, changed=changed, errors=skipped.errors, detail=detail)


def preview_releasing_webhooks(*, now: datetime, limit: int) -> PassReport:
    """How many webhooks it would see to."""
    del now
    seen = min(limit, _releasing().count() + _deleted_with_some_waiting().count())
    return PassReport(seen=seen, changed=seen)


def _deliveries_moved_in_turns(
    endpoints: QuerySet[WebhookEndpoint],
    step: Callable[[UUID, datetime], int],
    skipped: SkippedRows,
    *,
    now: datetime,
    limit: int,
) -> int:
    """One step of each in turn, until none has more: a webhook with a million does not keep the others waiting.

    In any order: those that fail may use up a pass's time, and would keep the same ones waiting in each.
    """
    changed = tried = 0
    waiting = list(endpoints.order_by("?").values_list("pk", flat=True))
    while waiting and changed < limit:
        left = []
        for endpoint_id in waiting:
            if tried and deadline.is_over():
                return changed
            moved, tried = 0, tried + 1
            with skipped.each(endpoint_id):
                moved = step(endpoint_id, now)
            changed += moved
            if moved == transitions.AT_ONCE:
                left.append(endpoint_id)
        waiting = left
    return changed


def _release(endpoint_id: UUID, now: datetime) -> int:
    with transaction.atomic():
        return 0 if transitions.locked_endpoint(endpoint_id) is None else transitions.release_some(endpoint_id, now=now)


def _end_some_of_deleted_webhook(endpoint_id: UUID, now: datetime) -> int:
    with transaction.atomic():
        return transitions.end_some(endpoint_id, now=now)


def _releasing() -> QuerySet[WebhookEndpoint]:
    return WebhookEndpoint.objects.filter(
        release_since__isnull=False, status=EndpointStatus.ENABLED, deleted_at__isnull=True
    )


def _deleted_with_some_waiting() -> QuerySet[WebhookEndpoint]:
    """Status by status: each has an index of its own, and both at once have none but the whole table."""
    of_it = WebhookDelivery.objects.filter(endpoint_id=OuterRef("pk"))
    pending, held = (Exists(of_it.filter(status=status)) for status in transitions.WAITING)
    return WebhookEndpoint.objects.filter(pending | held, deleted_at__isnull=False)
