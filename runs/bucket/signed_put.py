"""Writes an object with little CPU: a signature of our own over a plain kept connection.

boto3 takes four times as much of a worker's CPU for one PUT (docs/dependencies.md has the figures). This module tries
once and knows success only: a redirect, a refusal or no answer is left to boto3, with its retries and its errors. A PUT
of the same bytes to the same key may well be done twice.
"""

import http.client
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import structlog
from botocore.exceptions import BotoCoreError

from dpp_project.aws.connections import Connections
from dpp_project.aws.signing import Signer

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

log = structlog.get_logger("dpp.storage")

TIMEOUT_SECONDS: Final = 5.0
_UNCHANGED: Final = "/-_.~"
_ANY_KEY: Final = "any"


class SignedPut:
    """To one bucket; threads share it. `client` knows the bucket's address; each request calls `credentials`."""

    def __init__(self, client: "S3Client", bucket: str, credentials: Callable[[], Any]) -> None:
        address = urlsplit(client.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": _ANY_KEY}))
        origin = f"{address.scheme}://{address.netloc}"
        self._folder = address.path.removesuffix(_ANY_KEY)
        self._credentials = credentials
        self._signer = Signer(origin, service="s3", region=client.meta.region_name)
        self._connections = Connections(origin, timeout_seconds=TIMEOUT_SECONDS)

    def close(self) -> None:
        self._connections.close()

    def put(self, key: str, content: bytes, headers: Mapping[str, str]) -> bool:
        """Whether the object stands there now."""
        path = self._folder + quote(key, safe=_UNCHANGED)
        try:
            signed = self._signer.signed(self._credentials(), "PUT", path, headers, content)
            status, _ = self._connections.exchange("PUT", path, signed, content)
        except (OSError, http.client.HTTPException, BotoCoreError) as error:
            log.warning("object not put at once", exc_info=error)
            return False
        if status != 200:
            log.warning("object not put at once", status=status)
        return status == 200
