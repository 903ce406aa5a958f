"""Writes an object with little CPU: a signature of our own over a plain kept connection.

boto3 takes four times as much of a worker's CPU for one PUT (docs/dependencies.md has the figures). This module tries
once and knows success only: a redirect, a refusal or no answer is left to boto3, with its retries and its errors. A PUT
of the same bytes to the same key may well be done twice.
"""

import http.client
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import structlog
from botocore.exceptions import BotoCoreError

from dpp_project.aws.connections import Connections
from runs.bucket.signed_bucket import SignedBucket

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

log = structlog.get_logger("dpp.storage")

TIMEOUT_SECONDS: Final = 5.0


class SignedPut:
    """To one bucket; threads share it. `client` knows the bucket's address; each request calls `credentials`."""

    def __init__(self, client: "S3Client", bucket: str, credentials: Callable[[], Any]) -> None:
        self._bucket = SignedBucket.of(client, bucket)
        self._credentials = credentials
        self._connections = Connections(self._bucket.origin, timeout_seconds=TIMEOUT_SECONDS)

    def close(self) -> None:
        self._connections.close()

    def put(self, key: str, content: bytes, headers: Mapping[str, str]) -> bool:
        """Whether the object stands there now."""
        path = self._bucket.path_of(key)
        try:
            signed = self._bucket.signer.signed(self._credentials(), "PUT", path, headers, content)
            status, _ = self._connections.exchange("PUT", path, signed, content)
        except (OSError, http.client.HTTPException, BotoCoreError) as error:
            log.warning("object not put at once", exc_info=error)
            return False
        if status != 200:
            log.warning("object not put at once", status=status)
        return status == 200
