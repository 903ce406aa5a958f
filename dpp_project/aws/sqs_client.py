"""One boto3 client for SQS in each process, made when first asked for and never carried over a fork.

Building a client costs about 36 ms of CPU, so it is shared; a boto3 client is thread-safe.
"""

from typing import TYPE_CHECKING

from boto3.session import Session
from botocore.config import Config

from dpp_project.process_env import ENV
from dpp_project.processes.per_process import PerProcess

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

POOL_CONNECTIONS = 32
ATTEMPTS = 2


@PerProcess
def client() -> "SQSClient":
    """This process's client. A call gives up after two attempts of DPP_SQS_TIMEOUT_MS each."""
    return build(read_timeout_seconds=ENV.DPP_SQS_TIMEOUT_MS / 1_000, attempts=ATTEMPTS)


def build(*, read_timeout_seconds: float, attempts: int) -> "SQSClient":
    """A client of its own patience; the transport's long poll needs more than an ordinary call."""
    return Session().client(
        "sqs",
        region_name=ENV.AWS_REGION,
        endpoint_url=ENV.SQS_ENDPOINT_URL,
        aws_access_key_id=ENV.AWS_ACCESS_KEY_ID,
        aws_secret_access_key=ENV.AWS_SECRET_ACCESS_KEY,
        aws_session_token=ENV.AWS_SESSION_TOKEN,
        config=Config(
            connect_timeout=ENV.DPP_SQS_TIMEOUT_MS / 1_000,
            read_timeout=read_timeout_seconds,
            retries={"mode": "standard", "total_max_attempts": attempts},
            max_pool_connections=POOL_CONNECTIONS,
            tcp_keepalive=True,
        ),
    )
