"""What automations count, and what waits at a scrape."""

from collections.abc import Iterable
from typing import Final

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from dpp_project import clock
from dpp_project.observe.metrics import metrics_collector
from ops.automations.models import AutomationEvent, AutomationMessage, AutomationTask
from ops.automations.states import EventStatus, MessageStatus, TaskStatus

COUNTED_MAX: Final = 10_000
"""More are counted as so many: a scrape costs the same however many wait."""

EVENTS = Counter("dpp_automation_events_total", "Events that were ended or dispatched.", ["outcome"])
ATTEMPTS = Counter("dpp_automation_attempts_total", "Attempts of tasks that ended.", ["outcome"])
BOUNDS = Counter("dpp_automation_bounds_total", "Times a bound of a rule was met.", ["bound"])
ACCEPTED_SECONDS = Histogram(
    "dpp_automation_accepted_seconds",
    "From an event being seen to its run being accepted, where nothing held it up.",
    buckets=(0.1, 0.25, 0.5, 1, 2, 5, 15, 60, 300),
)
LOOKS: Final = Counter(
    "dpp_automation_looks_total", "Looks at sources, by kind and by what came of them.", ["source_kind", "outcome"]
)
FOUND: Final = Counter(
    "dpp_automation_events_found_total",
    "Events that looks and hooks found: new ones, ones seen before, and our own doing.",
    ["source_kind", "what"],
)
HOOKS: Final = Counter("dpp_automation_hooks_total", "Requests to signed hooks, by what came of them.", ["outcome"])
SENT: Final = Counter(
    "dpp_automation_message_attempts_total", "Attempts to send messages, by what came of them.", ["channel", "outcome"]
)
GIVEN_UP: Final = Counter(
    "dpp_automation_messages_failed_total", "Messages refused for good, or not sent in 24 hours.", ["channel"]
)


@metrics_collector("automations")
def automation_levels() -> Iterable[Metric]:
    waiting = GaugeMetricFamily(
        "dpp_automation_waiting", "Rows that are not ended, at most 10,000 counted.", labels=["what"]
    )
    rows = {
        "events": AutomationEvent.objects.filter(status=EventStatus.PENDING).order_by("next_try_at"),
        "tasks": AutomationTask.objects.exclude(status=TaskStatus.COMPLETED).order_by("next_try_at"),
        "messages": AutomationMessage.objects.filter(status=MessageStatus.PENDING).order_by("next_attempt_at"),
    }
    for what, found in rows.items():
        waiting.add_metric([what], found.values("pk")[:COUNTED_MAX].count())
    yield waiting
    seen_at = rows["events"].order_by("seen_at").values_list("seen_at", flat=True).first()
    age = 0.0 if seen_at is None else max(0.0, (clock.now() - seen_at).total_seconds())
    yield GaugeMetricFamily("dpp_automation_oldest_event_seconds", "Age of the oldest event not dispatched.", value=age)
