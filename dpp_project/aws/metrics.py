"""How full the queues are, asked of SQS at a scrape (DPP-74)."""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric

from dpp_project.aws import queue_depth
from dpp_project.observe import metrics
from dpp_project.process_env import ENV

QUEUES = {"runs": ENV.DPP_QUEUE_URL, "dead_letters": ENV.DPP_DLQ_URL}


@metrics.collector("queues")
def queue_depths() -> Iterable[Metric]:
    waiting = GaugeMetricFamily("dpp_queue_waiting", "Messages that wait.", labels=["queue"])
    in_flight = GaugeMetricFamily("dpp_queue_in_flight", "Messages received and not finished.", labels=["queue"])
    for name, url in QUEUES.items():
        visible, invisible = queue_depth.depth(url)
        waiting.add_metric([name], visible)
        in_flight.add_metric([name], invisible)
    return [waiting, in_flight]
