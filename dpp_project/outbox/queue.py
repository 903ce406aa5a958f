"""The queue of events, and the one of its dead letters."""

from typing import TYPE_CHECKING, Final

from dpp_project.aws import clients, sqs_sender
from dpp_project.aws.sqs_sender import Sender
from dpp_project.process_env import ENV
from dpp_project.processes.per_process import PerProcess

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

URL: Final = ENV.DPP_EVENTS_QUEUE_URL
"""None: there is no queue, and events wait in Postgres."""
DEAD_LETTERS_URL: Final = ENV.DPP_EVENTS_DLQ_URL


@PerProcess
def event_sender() -> Sender:
    """This process's. Raises SendRefused where there are no credentials."""
    if URL is None:
        raise LookupError("DPP_EVENTS_QUEUE_URL is not set")
    return sqs_sender.sqs_sender_to(URL)


@PerProcess
def event_poller() -> "SQSClient":
    """This process's, for long polls. It asks once: a poll that may have taken messages is not sent again."""
    return clients.new_sqs(read_timeout_seconds=ENV.DPP_SQS_WAIT_SECONDS + clients.SQS_TIMEOUT_SECONDS, attempts=1)
