"""How full a queue is, as far as SQS can say."""

from dpp_project.aws import clients


def queue_depth_of(url: str) -> tuple[int, int]:
    """Messages that wait, and messages that were received and are not finished; both approximate."""
    answer = clients.sqs_client().get_queue_attributes(
        QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    )
    attributes = answer["Attributes"]
    return int(attributes["ApproximateNumberOfMessages"]), int(attributes["ApproximateNumberOfMessagesNotVisible"])
