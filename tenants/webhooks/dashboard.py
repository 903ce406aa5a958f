"""Webhooks on the console's first page: which are in trouble, and what waits for them."""

from typing import Final

from django.db.models import Count, Q
from django.urls import reverse

from dpp_project.console.dashboard import Figure, Panel, panel
from tenants.webhooks.models import DeliveryStatus, WebhookDelivery, WebhookEndpoint

COUNTED_MAX: Final = 10_000
"""Deliveries are counted no further: the page is to be quick when most waits."""
SHOWN_MAX: Final = 10


@panel(title="Webhooks", order=65, permission="webhooks.view_webhookendpoint")
def webhooks_panel() -> Panel:
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
            Figure(label="Disabled", value=str(counts["disabled"]), link=f"{hooks}?status__exact=DISABLED"),
            Figure(label="Paused", value=str(counts["paused"]), link=f"{hooks}?status__exact=PAUSED"),
            Figure(label="Failing", value=str(counts["failing"]), note="Tried again, with pauses."),
            Figure(label="Held", value=_counted(DeliveryStatus.HELD), link=f"{deliveries}?status__exact=HELD"),
            Figure(label="On their way", value=_counted(DeliveryStatus.PENDING), note="To be sent, or sent again."),
        ],
        headers=["In trouble", "tenant", "status", "failing since", "failures"],
        rows=[
            [one.pk, one.tenant_id, one.status, one.failing_since or "", one.consecutive_failures]
            for one in trouble[:SHOWN_MAX]
        ],
    )


def _counted(status: DeliveryStatus) -> str:
    count = WebhookDelivery.objects.filter(status=status).order_by()[: COUNTED_MAX + 1].count()
    return f"over {COUNTED_MAX:,}" if count > COUNTED_MAX else f"{count:,}"
