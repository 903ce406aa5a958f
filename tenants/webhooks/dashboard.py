"""Webhooks on the console's first page: which are in trouble, and what waits for them."""

from datetime import datetime
from typing import Final

from django.db.models import Count, Q
from django.urls import reverse
from django.utils.html import format_html

from dpp_project import clock, durations
from dpp_project.console.dashboard import Figure, Panel, dashboard_panel
from tenants.webhooks import registration
from tenants.webhooks.models import DeliveryStatus, WebhookDelivery, WebhookEndpoint

COUNTED_MAX: Final = 10_000
"""Deliveries are counted no further: the page is to be quick when most waits."""
SHOWN_MAX: Final = 10


@dashboard_panel(title="Webhooks", order=65, permission="webhooks.view_webhookendpoint", is_live=True)
def webhooks_panel() -> Panel:
    now = clock.now()
    live = WebhookEndpoint.objects.filter(deleted_at__isnull=True)
    counts = live.aggregate(
        all=Count("pk"),
        paused=Count("pk", Q(status="PAUSED")),
        disabled=Count("pk", Q(status="DISABLED")),
        failing=Count("pk", Q(status="ENABLED", failing_since__isnull=False)),
    )
    hooks, deliveries = (reverse(f"admin:webhooks_webhook{one}_changelist") for one in ("endpoint", "delivery"))
    trouble = live.filter(Q(status="DISABLED") | Q(failing_since__isnull=False)).order_by("failing_since")
    return Panel(
        title="Webhooks",
        figures=[
            Figure(label="Webhooks", value=str(counts["all"]), link=hooks),
            Figure(
                label="Disabled",
                value=str(counts["disabled"]),
                link=f"{hooks}?status__exact=DISABLED",
                is_bad=counts["disabled"] > 0,
            ),
            Figure(label="Paused", value=str(counts["paused"]), link=f"{hooks}?status__exact=PAUSED"),
            Figure(
                label="Failing",
                value=str(counts["failing"]),
                note="Tried again, with pauses.",
                link=f"{hooks}?status__exact=ENABLED&failing_since__isempty=0",
            ),
            Figure(
                label="Held",
                value=_delivery_dashboard_count(DeliveryStatus.HELD),
                link=f"{deliveries}?status__exact=HELD",
            ),
            Figure(
                label="On their way",
                value=_delivery_dashboard_count(DeliveryStatus.PENDING),
                note="To be sent, or sent again.",
                link=f"{deliveries}?status__exact=PENDING",
            ),
        ],
        headers=["In trouble", "Of", "Status", "Failing"],
        rows=[_in_trouble(one, now) for one in trouble[:SHOWN_MAX]],
    )


def _in_trouble(one: WebhookEndpoint, now: datetime) -> list[object]:
    """By its host: a path may hold a secret of its owner's."""
    page, since = reverse("admin:webhooks_webhookendpoint_change", args=[one.pk]), one.failing_since
    return [
        format_html('<a href="{}">{}</a>', page, registration.endpoint_origin(one.url)),
        one.tenant_id,
        one.status.lower(),
        "" if since is None else f"for {durations.duration_text(now - since)}, {one.consecutive_failures} in a row",
    ]


def _delivery_dashboard_count(status: DeliveryStatus) -> str:
    count = WebhookDelivery.objects.filter(status=status).order_by()[: COUNTED_MAX + 1].count()
    return f"over {COUNTED_MAX:,}" if count > COUNTED_MAX else f"{count:,}"
