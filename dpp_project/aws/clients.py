"""boto3's clients, all made here, so that credentials, proxies, timeouts and retries are the same everywhere.

Building a process's first client costs about 50 ms of CPU, most of it for descriptions of AWS that a session reads and
keeps; the next one of the same session costs a tenth. So each process has one session, and of each client one that its
threads share; boto3 allows that of clients, and of a session only in turn.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from boto3.session import Session
from botocore.config import Config
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.exceptions import NoCredentialsError

from dpp_project.process_env import ENV
from dpp_project.processes.per_process import PerProcess

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

ATTEMPTS: Final = 2
SQS_TIMEOUT_SECONDS: Final = ENV.DPP_SQS_TIMEOUT_MS / 1_000
S3_CONNECT_SECONDS: Final = 3
S3_READ_SECONDS: Final = 10
POOL_CONNECTIONS: Final = 32


@PerProcess
def sqs_client() -> "SQSClient":
    """This process's client. A call gives up after two attempts of DPP_SQS_TIMEOUT_MS each."""
    return new_sqs()


def s3_client(endpoint_url: str | None) -> "S3Client":
    """This process's client for one address of the bucket. A call gives up after two attempts.

    Two threads that ask at once may make two; one stays.
    """
    made = _s3_by_address()
    if endpoint_url not in made:
        made.setdefault(endpoint_url, new_s3(endpoint_url))
    return made[endpoint_url]


def new_sqs(*, read_timeout_seconds: float = SQS_TIMEOUT_SECONDS, attempts: int = ATTEMPTS) -> "SQSClient":
    """A client of its own. The transport's long poll waits longer than an ordinary call."""
    config = _config(connect_timeout=SQS_TIMEOUT_SECONDS, read_timeout=read_timeout_seconds, attempts=attempts)
    made: SQSClient = _client("sqs", ENV.SQS_ENDPOINT_URL, config)
    return made


def new_s3(endpoint_url: str | None, *, attempts: int = ATTEMPTS) -> "S3Client":
    made: S3Client = _client("s3", endpoint_url, s3_config(endpoint_url, attempts))
    return made


def s3_config(endpoint_url: str | None, attempts: int = ATTEMPTS) -> Config:
    """AWS is asked at the bucket's own name in its region, an endpoint of another service by the bucket's path."""
    return _config(
        connect_timeout=S3_CONNECT_SECONDS,
        read_timeout=S3_READ_SECONDS,
        attempts=attempts,
        signature_version="s3v4",
        s3={"addressing_style": "path" if endpoint_url else "virtual"},
    )


@PerProcess
def _session() -> tuple[Session, threading.Lock]:
    """With the lock under which it makes clients."""
    return Session(), threading.Lock()


def _client(name: Any, endpoint_url: str | None, config: Config) -> Any:
    session, lock = _session()
    with lock:
        return session.client(name, endpoint_url=endpoint_url, config=config, **_identity())


@PerProcess
def _s3_by_address() -> dict[str | None, "S3Client"]:
    return {}


@PerProcess
def aws_credentials() -> Callable[[], Credentials | ReadOnlyCredentials]:
    """To be called for each request: renewed credentials are used from then on."""
    if ENV.AWS_ACCESS_KEY_ID is not None and ENV.AWS_SECRET_ACCESS_KEY is not None:
        given = Credentials(ENV.AWS_ACCESS_KEY_ID, ENV.AWS_SECRET_ACCESS_KEY, ENV.AWS_SESSION_TOKEN)
        return lambda: given
    found = Session().get_credentials()
    if found is None:
        raise NoCredentialsError
    return found.get_frozen_credentials


def _identity() -> dict[str, Any]:
    """Keys that are not set leave boto3 its own chain: role, profile."""
    return {
        "region_name": ENV.AWS_REGION,
        "aws_access_key_id": ENV.AWS_ACCESS_KEY_ID,
        "aws_secret_access_key": ENV.AWS_SECRET_ACCESS_KEY,
        "aws_session_token": ENV.AWS_SESSION_TOKEN,
    }


def _config(*, attempts: int, **more: Any) -> Config:
    return Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=POOL_CONNECTIONS,
        tcp_keepalive=True,
        **more,
    )
