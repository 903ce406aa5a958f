"""How full the queues are, asked of SQS at a scrape (DPP-74)."""

from collections.abc import Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from dpp_project.aws import queue_depth
from dpp_project.observe import metrics
from dpp_project.process_env import ENV

QUEUES = {"runs": ENV.DPP_QUEUE_URL, "express": ENV.DPP_EXPRESS_QUEUE_URL, "dead_letters": ENV.DPP_DLQ_URL}
QUEUES_OF_EVENTS = {"events": ENV.DPP_EVENTS_QUEUE_URL, "dead_letters": ENV.DPP_EVENTS_DLQ_URL}


@metrics.metrics_collector("queues")
def queue_depths() -> Iterable[Metric]:
    waiting = GaugeMetricFamily("dpp_queue_waiting", "Messages that wait.", labels=["queue"])
    in_flight = GaugeMetricFamily("dpp_queue_in_flight", "Messages received and not finished.", labels=["queue"])
    return _depths({name: url for name, url in QUEUES.items() if url is not None}, waiting, in_flight)


@metrics.metrics_collector("events_queues")
def depths_of_events() -> Iterable[Metric]:
    """By themselves: where these queues are missing, the depths of those of the runs still stand on the page."""
    waiting = GaugeMetricFamily("dpp_events_queue_waiting", "Messages of events that wait.", labels=["queue"])
    in_flight = GaugeMetricFamily("dpp_events_queue_in_flight", "Those received and not finished.", labels=["queue"])
    return _depths({name: url for name, url in QUEUES_OF_EVENTS.items() if url is not None}, waiting, in_flight)


def _depths(
    queues: Mapping[str, str], waiting: GaugeMetricFamily, in_flight: GaugeMetricFamily
) -> list[GaugeMetricFamily]:
    for name, url in queues.items():
        visible, invisible = queue_depth.queue_depth_of(url)
        waiting.add_metric([name], visible)
        in_flight.add_metric([name], invisible)
    return [waiting, in_flight]
