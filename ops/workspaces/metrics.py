"""What workspaces count, and how they stand."""

from collections.abc import Iterable
from typing import Final

from django.db import connection
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from dpp_project.observe import metrics
from ops.workspaces.states import Phase

ARCHIVES_COLLECTED: Final = Counter(
    "dpp_workspace_archives_collected_total", "Archives deleted: superseded for two hours, or of a purged workspace."
)
ARCHIVES_QUARANTINED: Final = Counter(
    "dpp_workspace_archives_quarantined_total", "Archives set aside: known to no row, or not what their row says."
)
VERIFY_FAILURES: Final = Counter(
    "dpp_workspace_verify_failures_total", "Archives that were read and are not what was read back once."
)
ORPHANS: Final = Gauge(
    "dpp_workspace_orphans",
    "Objects in the archives' bucket that no row accounts for, at the last look.",
    multiprocess_mode="mostrecent",
)
UNKNOWN_AT_DRIVER: Final = Gauge(
    "dpp_workspace_unknown_at_driver",
    "Volumes and containers of ours at a driver that no row knows, at the last look.",
    ["driver"],
    multiprocess_mode="mostrecent",
)
OPERATION_SECONDS: Final = Histogram(
    "dpp_workspace_operation_seconds",
    "From the beginning of an operation to its end as asked for, retries and takeovers included.",
    ["operation"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200),
)
TAKEOVERS: Final = Counter(
    "dpp_workspace_takeovers_total",
    "Operations whose attempt let its lease run out, taken over by the next.",
    ["operation"],
)
PROXIED: Final = Counter(
    "dpp_workspace_proxy_requests_total", "Requests to ports of workspaces, by what came of them.", ["came"]
)

_PHASES: Final = "SELECT phase, count(*) FROM workspaces WHERE purged_at IS NULL GROUP BY phase"
_LAGS: Final = """
SELECT coalesce(max(extract(epoch FROM now() - observed_at)) FILTER (WHERE observed_at IS NOT NULL), 0),
       coalesce(max(extract(epoch FROM now() - op_started_at)) FILTER (WHERE operation <> 'NONE'), 0),
       count(*) FILTER (WHERE operation <> 'NONE'),
       count(*) FILTER (WHERE operation <> 'NONE' AND op_attempt > 1),
       count(*) FILTER (WHERE desired_state <> phase AND phase <> 'ERROR')
  FROM workspaces WHERE purged_at IS NULL AND (deleted_at IS NULL OR desired_state <> 'DELETED')
"""
_FROZEN: Final = "SELECT count(*) FROM workspace_drivers WHERE frozen_at IS NOT NULL"


@metrics.metrics_collector("workspaces")
def workspace_metrics() -> Iterable[Metric]:
    with connection.cursor() as cursor:
        cursor.execute(_PHASES)
        counts = dict(cursor.fetchall())
        cursor.execute(_LAGS)
        observed, working, operations, retaken, apart = cursor.fetchone()
        cursor.execute(_FROZEN)
        (frozen,) = cursor.fetchone()
    phases = GaugeMetricFamily("dpp_workspaces", "Workspaces by phase, purged ones left out.", labels=["phase"])
    for phase in Phase:
        phases.add_metric([phase.value], counts.get(phase.value, 0))
    return [
        phases,
        GaugeMetricFamily(
            "dpp_workspace_oldest_observation_seconds",
            "Since the look at the longest unseen one.",
            value=float(observed),
        ),
        GaugeMetricFamily(
            "dpp_workspace_oldest_operation_seconds",
            "How long the oldest operation has been under way.",
            value=float(working),
        ),
        GaugeMetricFamily("dpp_workspace_operations", "Operations under way.", value=float(operations)),
        GaugeMetricFamily(
            "dpp_workspace_operations_retaken",
            "Of these, those that an attempt before this one left.",
            value=float(retaken),
        ),
        GaugeMetricFamily(
            "dpp_workspaces_not_converged", "Those that are not yet as asked for, ERROR left out.", value=float(apart)
        ),
        GaugeMetricFamily("dpp_workspace_drivers_frozen", "Drivers that wait for an operator.", value=float(frozen)),
    ]
