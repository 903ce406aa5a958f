"""How full the queues are, asked of SQS when somebody scrapes (DPP-74)."""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric

from dpp_project.aws import sqs_client
from dpp_project.observe import metrics
from dpp_project.settings import ENV

QUEUES = {"runs": ENV.DPP_QUEUE_URL, "dead_letters": ENV.DPP_DLQ_URL}


def depth(url: str) -> tuple[int, int]:
    """Messages that wait, and messages somebody has received and not finished; both approximate, as SQS says."""
    answer = sqs_client.client().get_queue_attributes(
        QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    )
    attributes = answer["Attributes"]
    return int(attributes["ApproximateNumberOfMessages"]), int(attributes["ApproximateNumberOfMessagesNotVisible"])


@metrics.collector("queues")
def queue_depths() -> Iterable[Metric]:
    waiting = GaugeMetricFamily("dpp_queue_waiting", "Messages that wait.", labels=["queue"])
    in_flight = GaugeMetricFamily("dpp_queue_in_flight", "Messages received and not finished.", labels=["queue"])
    for name, url in QUEUES.items():
        visible, invisible = depth(url)
        waiting.add_metric([name], visible)
        in_flight.add_metric([name], invisible)
    return [waiting, in_flight]
