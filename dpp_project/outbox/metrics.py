"""What publisher and consumers count, and what waits, read at a scrape."""

from collections.abc import Iterable

from django.db import connection
from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from dpp_project.observe import metrics

PUBLISHED = Counter("dpp_events_published_total", "Sends of events, by how they went.", ["outcome"])
DELIVERED = Counter("dpp_events_delivered_total", "Messages of events received, by what became of them.", ["outcome"])
HANDLED = Histogram(
    "dpp_event_handled_seconds",
    "From an event's commit to its handler's.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 600, 3_600),
)
RESENT = Counter("dpp_events_resent_total", "Events sent again because nothing was heard of them.")
TAKEN_OVER = Counter("dpp_events_taken_over_total", "Claims of publishers that died, taken over.")
LETTERS = Counter("dpp_event_letters_total", "Dead letters of events, by their reason.", ["reason"])

COUNTED_MAX = 10_000
_WAITING = """
SELECT 'unpublished', (SELECT count(*) FROM (SELECT 1 FROM outbox_message WHERE status = 'PENDING' LIMIT %s) AS counted)
UNION ALL
SELECT 'claimed', (SELECT count(*) FROM (SELECT 1 FROM outbox_message WHERE status = 'PROCESSING' LIMIT %s) AS counted)
UNION ALL
SELECT 'unhandled', (SELECT count(*) FROM (
    SELECT 1 FROM outbox_message WHERE status = 'PUBLISHED' AND handled_at IS NULL LIMIT %s) AS counted)
"""
_OLDEST = """
SELECT coalesce(greatest(0, extract(epoch FROM now() - min(next_retry_at))), 0)
FROM outbox_message WHERE status = 'PENDING'
"""
_LETTERS = "SELECT count(*) FROM event_dead_letter WHERE redriven_at IS NULL"


@metrics.metrics_collector("events")
def waiting_events() -> Iterable[Metric]:
    """Each count ends at 10,000: by then something is wrong, and a scrape must not make it worse."""
    family = GaugeMetricFamily("dpp_events_waiting", "Events on their way, by where they are.", labels=["state"])
    oldest = GaugeMetricFamily("dpp_events_oldest_due_seconds", "How long the oldest due event waits to be sent.")
    letters = GaugeMetricFamily("dpp_event_letters", "Dead letters of events that nobody has sent again.")
    with connection.cursor() as cursor:
        cursor.execute(_WAITING, [COUNTED_MAX] * 3)
        for state, count in cursor.fetchall():
            family.add_metric([state], count)
        cursor.execute(_OLDEST)
        oldest.add_metric([], float(cursor.fetchone()[0]))
        cursor.execute(_LETTERS)
        letters.add_metric([], cursor.fetchone()[0])
    return [family, oldest, letters]
