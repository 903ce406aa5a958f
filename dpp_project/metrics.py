"""Prometheus metrics: what processes count, and what is read from the services when somebody asks.

Counters and histograms live in prometheus_client's registry (shared between processes through
PROMETHEUS_MULTIPROC_DIR). Levels (queue depth, job ages) are read at the scrape by collectors that each app's
`metrics.py` registers here; a collector that fails is counted, and the rest of the page stands.
"""

import os
from collections.abc import Callable, Iterable

import structlog
from prometheus_client import REGISTRY, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

log = structlog.get_logger("dpp.metrics")

REQUEST_SECONDS = Histogram(
    "dpp_http_request_seconds",
    "Time to answer one HTTP request.",
    ["method", "route", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)

Collect = Callable[[], Iterable[Metric]]
_collectors: dict[str, Collect] = {}


def collector(name: str) -> Callable[[Collect], Collect]:
    """Register a function that reads levels at the scrape."""

    def register(collect: Collect) -> Collect:
        _collectors[name] = collect
        return collect

    return register


class _Levels(Collector):
    def collect(self) -> Iterable[Metric]:
        failed = GaugeMetricFamily(
            "dpp_collector_failed", "1 where a source of levels did not answer.", labels=["name"]
        )
        for name, collect in sorted(_collectors.items()):
            try:
                found = list(collect())
            except Exception as error:
                log.warning("collector failed", collector=name, exc_info=error)
                failed.add_metric([name], 1)
            else:
                failed.add_metric([name], 0)
                yield from found
        yield failed


def page() -> bytes:
    """The scrape: counts of all processes, then the levels."""
    counts: CollectorRegistry = REGISTRY
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        counts = CollectorRegistry()
        MultiProcessCollector(counts)  # type: ignore[no-untyped-call]
    levels = CollectorRegistry()
    levels.register(_Levels())
    return generate_latest(counts) + generate_latest(levels)
