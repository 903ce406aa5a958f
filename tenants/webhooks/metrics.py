"""What the sender counts and times, and what waits for it."""

from collections.abc import Iterable
from typing import Final

from django.db import connection
from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from dpp_project.observe import metrics

ATTEMPTS: Final = Counter(
    "dpp_webhook_attempts_total",
    "Attempts to deliver, by what came of them: delivered, refused by its receiver, or no answer.",
    ["outcome"],
)
ATTEMPT_SECONDS: Final = Histogram(
    "dpp_webhook_attempt_seconds",
    "How long one attempt took, from the lookup of its name to the end of its answer.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 20),
)
FIRST_ATTEMPT_SECONDS: Final = Histogram(
    "dpp_webhook_first_attempt_seconds",
    "From an event to the begin of its first attempt at an endpoint.",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600),
)
MARKS_LOST: Final = Counter(
    "dpp_webhook_marks_lost_total", "Attempts whose lease had gone to another, or to nobody, before they were marked."
)
ENDPOINTS_DISABLED: Final = Counter(
    "dpp_webhook_endpoints_disabled_total",
    "Endpoints disabled by the sender: gone (410), or failing for days.",
    ["why"],
)
UNSIGNED: Final = Counter(
    "dpp_webhook_unsigned_total", "Deliveries put off because no secret of their endpoint could be read."
)

_WAITING: Final = """
SELECT count(*) FILTER (WHERE status = 'PENDING'), count(*) FILTER (WHERE status = 'HELD'),
       coalesce(extract(epoch FROM now() - (SELECT min(at) FROM webhook_message WHERE fanned_out_at IS NULL)), 0)
  FROM webhook_delivery WHERE status IN ('PENDING', 'HELD')
"""
_ENDPOINTS: Final = """
SELECT count(*) FILTER (WHERE failing_since IS NOT NULL), count(*) FILTER (WHERE status = 'DISABLED')
  FROM webhook_endpoint WHERE deleted_at IS NULL
"""


@metrics.metrics_collector("webhooks")
def webhook_metrics() -> Iterable[Metric]:
    with connection.cursor() as cursor:
        cursor.execute(_WAITING)
        pending, held, unsent_seconds = cursor.fetchone()
        cursor.execute(_ENDPOINTS)
        failing, disabled = cursor.fetchone()
    waiting = GaugeMetricFamily("dpp_webhook_deliveries", "Deliveries not ended, by state.", labels=["state"])
    waiting.add_metric(["PENDING"], pending)
    waiting.add_metric(["HELD"], held)
    endpoints = GaugeMetricFamily("dpp_webhook_endpoints", "Endpoints in trouble, by state.", labels=["state"])
    endpoints.add_metric(["failing"], failing)
    endpoints.add_metric(["disabled"], disabled)
    oldest = GaugeMetricFamily(
        "dpp_webhook_oldest_unsent_seconds", "How long the oldest event has waited for the sender to see it."
    )
    oldest.add_metric([], float(unsent_seconds))
    return [waiting, endpoints, oldest]
