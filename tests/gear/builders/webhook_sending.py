"""Endpoints as the sender meets them, messages and deliveries in any number, and what became of them."""

import itertools
import secrets
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from tenants.models import Tenant
from tenants.webhooks import event_names, signing_secrets
from tenants.webhooks.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint, WebhookMessage, WebhookSecret
from tests.gear.builders.tenants import a_tenant

EVERY_EVENT = [one.value for one in event_names.SUBSCRIBABLE]
_numbers = itertools.count()


def an_endpoint(
    tenant: Tenant | str | None = None,
    *,
    url: str = "https://good.example/ok",
    events: Sequence[str] = (),
    proven: bool = False,
    **columns: Any,
) -> WebhookEndpoint:
    """New, unless it is `proven`: then it has answered, and quickly."""
    tenant_id = tenant if isinstance(tenant, str) else (tenant or a_tenant()).tenant_id
    if proven:
        columns.setdefault("last_success_at", Now())
    made = WebhookEndpoint.objects.create(
        tenant_id=tenant_id, url=url, events=list(events) or EVERY_EVENT, updated_at=Now(), created_at=Now(), **columns
    )
    secret = signing_secrets.make_signing_secret(made.endpoint_id)
    WebhookSecret.objects.create(endpoint=made, ciphertext=secret.ciphertext)
    return row(made)


def row(endpoint: WebhookEndpoint | UUID) -> WebhookEndpoint:
    return WebhookEndpoint.objects.get(pk=endpoint.pk if isinstance(endpoint, WebhookEndpoint) else endpoint)


def a_message(tenant_id: str, *, event: str = "run.completed", **payload: Any) -> WebhookMessage:
    return messages(tenant_id, 1, event=event, **payload)[0]


def messages(tenant_id: str, count: int, *, event: str = "run.completed", **payload: Any) -> list[WebhookMessage]:
    keys = [f"test:{next(_numbers)}:{secrets.token_hex(4)}" for _ in range(count)]
    WebhookMessage.objects.bulk_create(
        [WebhookMessage(tenant_id=tenant_id, event=event, key=key, payload=payload or {"key": key}) for key in keys],
        batch_size=1_000,
    )
    return list(WebhookMessage.objects.filter(key__in=keys))


def deliveries_due(endpoint: WebhookEndpoint, count: int = 1, **columns: Any) -> list[WebhookDelivery]:
    """So many messages, each on its way to this endpoint alone."""
    columns = {"status": "PENDING", "next_attempt_at": Now(), **columns}
    made = messages(endpoint.tenant_id, count)
    WebhookMessage.objects.filter(fanned_out_at__isnull=True).update(fanned_out_at=Now())
    WebhookDelivery.objects.bulk_create(
        [WebhookDelivery(message=message, endpoint=endpoint, **columns) for message in made], batch_size=1_000
    )
    return list(WebhookDelivery.objects.filter(endpoint=endpoint, message__in=made))


def statuses(endpoint: WebhookEndpoint) -> Counter[str]:
    return Counter(WebhookDelivery.objects.filter(endpoint=endpoint).values_list("status", flat=True))


def attempts(endpoint: WebhookEndpoint) -> list[tuple[int | None, str]]:
    """What came of each, in order."""
    found = WebhookAttempt.objects.filter(delivery__endpoint=endpoint).order_by("attempt_id")
    return list(found.values_list("status_code", "error"))


def aged(endpoint: WebhookEndpoint, **seconds_ago: float) -> WebhookEndpoint:
    """Times of its row moved into the past, by the database's clock; negative ones into the future."""
    moved = {column: Now() - timedelta(seconds=seconds) for column, seconds in seconds_ago.items()}
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(**moved)
    return row(endpoint)


def live_leases() -> int:
    return WebhookDelivery.objects.filter(lease_until__gt=Now()).count()
