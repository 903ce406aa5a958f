"""Messages with their deliveries and tries go after 30 days, as do deleted webhooks; secrets go when they have ended.

A message stays as long as it is held, and 30 days at most. One that was recovered on its last day is still sent: what
is PENDING has the days of a whole schedule beyond them. In batches, each a transaction of its own: a death between two
leaves the rest to the next pass. Ages go by the earlier of the database's clock and this process's.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from dpp_project import retention
from dpp_project.constants import RETENTION_DAYS
from dpp_project.jobs import deadline
from dpp_project.jobs.registry import PassReport
from dpp_project.lifecycle import cleaning
from dpp_project.retention import DataKind
from tenants.webhooks.models import (
    DeliveryStatus,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookMessage,
    WebhookSecret,
)

DELIVERIES: Final = "webhook_deliveries"
WEBHOOKS: Final = "deleted_webhooks"
SCHEDULE_AT_MOST: Final = timedelta(days=5)
AT_ONCE: Final = 1_000
TRIES_AT_ONCE: Final = 50_000
"""One that its owner sent again for weeks has millions: in one statement they would outlast it, at each pass anew."""

KINDS = (
    DataKind(
        name=DELIVERIES,
        tables=("webhook_message", "webhook_delivery", "webhook_attempt"),
        states="PENDING, HELD, DELIVERED, FAILED",
        made_by="the statement of a fact; deliveries by the fan-out, attempts by the sender",
        read_by="sender, the webhook's owner, operators",
        days=RETENTION_DAYS,
        until="after it happened; one that is still being sent has 5 days more",
        why="As far back as a webhook can be recovered; runs go then, too.",
        deleted_by="the job `webhook_retention`",
    ),
    DataKind(
        name=WEBHOOKS,
        tables=("webhook_endpoint", "webhook_secret"),
        states="enabled, paused, disabled, deleted; a secret: live, ending",
        made_by="its owner, operators",
        read_by="fan-out and sender",
        days=RETENTION_DAYS,
        until="after it was deleted; a secret when it has ended",
        why="As long as deliveries name it; its secrets go when it is deleted.",
        deleted_by="the job `webhook_retention`",
    ),
)


def forget_old_webhooks(*, now: datetime, limit: int) -> PassReport:
    left, detail, at = limit, {}, cleaning.cleanup_moment(now)
    for kind, delete in _STEPS.items():
        detail[kind] = _webhook_rows_deleted(delete, now=at, limit=left)
        left -= detail[kind]
    return PassReport(seen=limit - left, changed=limit - left, detail=detail)


def preview_forgetting_webhooks(*, now: datetime, limit: int) -> PassReport:
    at = cleaning.cleanup_moment(now)
    old = (_ended_secrets(at), _old_deliveries(at), _old_messages(at), _old_endpoints(at))
    seen = min(limit, sum(rows.order_by()[:limit].count() for rows in old))
    return PassReport(seen=seen, changed=seen)


def _webhook_rows_deleted(delete: Callable[[datetime, int], int], *, now: datetime, limit: int) -> int:
    changed = 0
    while changed < limit and not (changed and deadline.is_over()):
        found = delete(now, min(AT_ONCE, limit - changed))
        if not found:
            break
        changed += found
    return changed


def _delete_secrets(now: datetime, limit: int) -> int:
    return _delete(_ended_secrets(now).order_by("pk"), limit)


def _delete_deliveries(now: datetime, limit: int) -> int:
    """What a sender or an act has in its hands is left for the next pass; what has more tries, for the next batch."""
    with transaction.atomic():
        old = _old_deliveries(now).order_by("created_at").select_for_update(skip_locked=True, of=("self",))
        ids = list(old.values_list("pk", flat=True)[:limit])
        tries = WebhookAttempt.objects.filter(delivery_id__in=ids).order_by()
        WebhookAttempt.objects.filter(pk__in=tries.values("pk")[:TRIES_AT_ONCE]).delete()
        left = WebhookAttempt.objects.filter(delivery_id=OuterRef("pk"))
        WebhookDelivery.objects.filter(~Exists(left), pk__in=ids).delete()
    return len(ids)


def _delete_messages(now: datetime, limit: int) -> int:
    return _delete(_old_messages(now).order_by("at"), limit)


def _delete_endpoints(now: datetime, limit: int) -> int:
    return _delete(_old_endpoints(now).order_by("pk"), limit)


def _delete(rows: QuerySet[Any], limit: int) -> int:
    with transaction.atomic():
        ids = list(rows.select_for_update(skip_locked=True, of=("self",)).values_list("pk", flat=True)[:limit])
        rows.model.objects.filter(pk__in=ids).delete()
    return len(ids)


def _ended_secrets(now: datetime) -> QuerySet[WebhookSecret]:
    return WebhookSecret.objects.filter(expires_at__lte=now)


def _old_deliveries(now: datetime) -> QuerySet[WebhookDelivery]:
    cutoff = retention.retention_cutoff(DELIVERIES, now=now)
    on_its_way = Q(status=DeliveryStatus.PENDING, created_at__gte=cutoff - SCHEDULE_AT_MOST)
    return WebhookDelivery.objects.filter(~on_its_way, created_at__lt=cutoff)


def _old_messages(now: datetime) -> QuerySet[WebhookMessage]:
    named = WebhookDelivery.objects.filter(message_id=OuterRef("pk"))
    return WebhookMessage.objects.filter(~Exists(named), at__lt=retention.retention_cutoff(DELIVERIES, now=now))


def _old_endpoints(now: datetime) -> QuerySet[WebhookEndpoint]:
    named = WebhookDelivery.objects.filter(endpoint_id=OuterRef("pk"))
    return WebhookEndpoint.objects.filter(~Exists(named), deleted_at__lt=retention.retention_cutoff(WEBHOOKS, now=now))


_STEPS: Final = {
    "secrets": _delete_secrets,
    "deliveries": _delete_deliveries,
    "messages": _delete_messages,
    "webhooks": _delete_endpoints,
}
