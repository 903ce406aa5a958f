"""How full a queue is, as far as SQS can say."""

from dpp_project.aws import sqs_client


def depth(url: str) -> tuple[int, int]:
    """Messages that wait, and messages that were received and are not finished; both approximate."""
    answer = sqs_client.client().get_queue_attributes(
        QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    )
    attributes = answer["Attributes"]
    return int(attributes["ApproximateNumberOfMessages"]), int(attributes["ApproximateNumberOfMessagesNotVisible"])
