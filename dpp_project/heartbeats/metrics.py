"""How many processes are alive, and how many fell silent."""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric

from dpp_project.heartbeats import processes
from dpp_project.observe import metrics


@metrics.metrics_collector("processes")
def collect_processes() -> Iterable[Metric]:
    family = GaugeMetricFamily("dpp_processes", "Processes of the platform.", labels=["service", "state"])
    for service, states in processes.process_counts().items():
        for state, number in states.items():
            family.add_metric([service, state], number)
    still = GaugeMetricFamily("dpp_processes_still", "Processes that live and get nothing done.", labels=["service"])
    for service, number in processes.standing_still().items():
        still.add_metric([service], number)
    return [family, still]
