"""What auth errors count, and how many wait at a scrape."""

from collections.abc import Iterable
from typing import Final

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily, Metric

from dpp_project import clock
from dpp_project.observe.metrics import metrics_collector
from ops.auth_errors.models import AuthError
from ops.auth_errors.states import BEFORE_DECISION, AuthErrorStatus

COUNTED_MAX: Final = 10_000
"""More are counted as so many: a scrape costs the same however many wait."""

RECORDED = Counter("dpp_auth_errors_recorded_total", "Reports of auth errors, new or repeated.", ["outcome"])
ANALYZED = Counter("dpp_auth_errors_analyzed_total", "Auth errors that were analysed.")
SKIPPED = Counter(
    "dpp_auth_errors_skipped_total", "Events about errors that had ended or come further.", ["event_type"]
)
REGRESSED = Counter("dpp_auth_error_clusters_regressed_total", "Resolved clusters that an error came back to.")
DECISIONS = Counter(
    "dpp_auth_error_decisions_total", "Errors decided: by operator, rule or cluster.", ["decision", "by"]
)


@metrics_collector("auth_errors")
def auth_error_levels() -> Iterable[Metric]:
    waiting = GaugeMetricFamily(
        "dpp_auth_errors_waiting", "Auth errors before their decision, at most 10,000 counted.", labels=["status"]
    )
    for status in BEFORE_DECISION:
        rows = AuthError.objects.filter(status=status).order_by("auth_error_id").values("pk")
        waiting.add_metric([status.value], rows[:COUNTED_MAX].count())
    yield waiting
    ages = [
        AuthError.objects.filter(status=status).order_by("auth_error_id").values_list("recorded_at", flat=True).first()
        for status in (AuthErrorStatus.NEW, AuthErrorStatus.ANALYSIS_REQUESTED)
    ]
    oldest = min((at for at in ages if at is not None), default=None)
    age = 0.0 if oldest is None else max(0.0, (clock.now() - oldest).total_seconds())
    yield GaugeMetricFamily("dpp_auth_errors_oldest_waiting_seconds", "Age of the oldest not analysed.", value=age)
