"""How full a queue is, as far as SQS can say."""

from dpp_project.aws import clients


def depth(url: str) -> tuple[int, int]:
    """Messages that wait, and messages that were received and are not finished; both approximate."""
    answer = clients.sqs().get_queue_attributes(
        QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    )
    attributes = answer["Attributes"]
    return int(attributes["ApproximateNumberOfMessages"]), int(attributes["ApproximateNumberOfMessagesNotVisible"])
