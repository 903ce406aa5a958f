"""What the ops cycle counts, and how many tickets wait for whom at a scrape (DPP-74)."""

from collections.abc import Iterable

from django.db.models import Count, Min
from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily, Metric

from dpp_project import clock
from dpp_project.observe.metrics import metrics_collector
from ops.tickets import emergency, selectors
from ops.tickets.states import TicketStatus

PROCESSED = Counter(
    "dpp_tickets_processed_total",
    "Tries of the ops cycle: DONE, FAILED, put off (IN_PROGRESS), or LOST to another.",
    ["request_type", "outcome"],
)
REAPED = Counter("dpp_tickets_reaped_total", "Tickets that the ticket reaper ended FAILED.", ["request_type"])


@metrics_collector("tickets")
def collect_tickets() -> Iterable[Metric]:
    """Read from the index of unfinished tickets: the scrape costs the same however many have ended."""
    unfinished = GaugeMetricFamily("dpp_tickets_unfinished", "Tickets that have not ended.", labels=["status"])
    found = dict(selectors.unfinished_tickets().order_by().values_list("status").annotate(count=Count("pk")))
    for status in (TicketStatus.OPEN, TicketStatus.IN_PROGRESS):
        unfinished.add_metric([status.value], found.get(status.value, 0))
    yield unfinished
    waiting = selectors.waiting_for_approval()
    yield GaugeMetricFamily(
        "dpp_tickets_waiting_for_approval", "Open tickets that wait for a second operator.", value=waiting.count()
    )
    oldest = selectors.due_tickets().order_by().aggregate(at=Min("created_at"))["at"]
    age = 0.0 if oldest is None else max(0.0, (clock.now() - oldest).total_seconds())
    yield GaugeMetricFamily("dpp_tickets_oldest_due_seconds", "Age of the oldest the cycle could take.", value=age)
    yield GaugeMetricFamily("dpp_emergency_stop", "1 while the emergency stop is on.", value=int(emergency.is_on()))
