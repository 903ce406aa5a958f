"""Every query of endpoints and deliveries that people ask for; each of a tenant's names the tenant."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Prefetch, Q

from dpp_project.http.cursors import Cursor
from tenants.webhooks.models import DeliveryStatus, WebhookAttempt, WebhookDelivery, WebhookEndpoint

TRIES_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class DeliveriesPage:
    deliveries: list[WebhookDelivery]
    next: tuple[datetime, uuid.UUID] | None


def endpoints_of(tenant_id: str) -> list[WebhookEndpoint]:
    """Those not deleted; there are ten at most."""
    rows = WebhookEndpoint.objects.filter(tenant_id=tenant_id, deleted_at__isnull=True)
    return list(rows.order_by("created_at", "endpoint_id"))


def list_endpoints(*, tenant_id: str | None, limit: int) -> list[WebhookEndpoint]:
    """For operators: the newest of all tenants or of one."""
    rows = WebhookEndpoint.objects.filter(deleted_at__isnull=True)
    if tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    return list(rows.order_by("-created_at", "-endpoint_id")[:limit])


def endpoint_of(tenant_id: str, endpoint_id: uuid.UUID) -> WebhookEndpoint | None:
    rows = WebhookEndpoint.objects.filter(tenant_id=tenant_id, endpoint_id=endpoint_id, deleted_at__isnull=True)
    return rows.first()


def delivery_of(tenant_id: str, delivery_id: uuid.UUID) -> WebhookDelivery | None:
    rows = WebhookDelivery.objects.filter(
        delivery_id=delivery_id, endpoint__tenant_id=tenant_id, endpoint__deleted_at__isnull=True
    )
    return rows.select_related("message", "endpoint").prefetch_related(_tries()).first()


def deliveries_of(
    endpoint: WebhookEndpoint, *, status: DeliveryStatus | None, after: Cursor | None, limit: int
) -> DeliveriesPage:
    """Newest first, with what each try came to."""
    rows = WebhookDelivery.objects.filter(endpoint=endpoint)
    if status is not None:
        rows = rows.filter(status=status)
    if after is not None:
        older = Q(created_at__lt=after.at) | Q(created_at=after.at, delivery_id__lt=after.id)
        rows = rows.filter(older, created_at__lte=after.at)
    rows = rows.order_by("-created_at", "-delivery_id").select_related("message").prefetch_related(_tries())
    found = list(rows[: limit + 1])
    more = len(found) > limit
    last = found[limit - 1] if more else None
    return DeliveriesPage(found[:limit], None if last is None else (last.created_at, last.delivery_id))


def _tries() -> Any:
    """The latest of each delivery: one that was sent again often has hundreds."""
    return Prefetch("tries", WebhookAttempt.objects.order_by("-attempt_id")[:TRIES_SHOWN], to_attr="latest_tries")


def latest_tries(delivery: WebhookDelivery) -> list[WebhookAttempt]:
    """As they were read with it; one that was just made has none."""
    found: list[WebhookAttempt] = getattr(delivery, "latest_tries", [])
    return found
