"""Writes an object with little CPU: botocore's own signature on a request that we make, over a plain kept connection.

boto3 spent three times as much of a worker's processor on one PUT as the request needs. Only the way that works is
taken here, once: whatever else comes, a redirect, a refusal, no answer, is boto3's to meet, with its retries and its
errors. A PUT of the same bytes to the same key may well be done twice.
"""

import http.client
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import structlog
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest

from dpp_project.aws.sqs_sender import Connections

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

log = structlog.get_logger("dpp.storage")

TIMEOUT_SECONDS: Final = 5.0
_UNCHANGED: Final = "/-_.~"


class Putter:
    """To one bucket, for as many threads as like. `client` knows its address, its region and the credentials."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        inside: Any = client  # a presigned address, which is offered, may name the global endpoint, which redirects
        found = inside._ruleset_resolver.construct_endpoint(  # noqa: SLF001
            operation_model=client.meta.service_model.operation_model("PutObject"),
            call_args={"Bucket": bucket, "Key": "any"},
            request_context={},
        )
        self._folder = f"{found.url}/"
        self._region = client.meta.region_name
        self._credentials = inside._request_signer._credentials  # noqa: SLF001
        self._connections = Connections(self._folder, timeout_seconds=TIMEOUT_SECONDS)

    def put(self, key: str, content: bytes, headers: Mapping[str, str]) -> bool:
        """Whether the object stands there now."""
        if self._credentials is None:
            return False
        try:
            request = self.signed(key, content, headers)
            path = urlsplit(str(request.url)).path
            status, _ = self._connections.exchange("PUT", path, content, dict(request.headers.items()))
        except (OSError, http.client.HTTPException) as error:
            log.warning("object not put at once", exc_info=error)
            return False
        if status != 200:
            log.warning("object not put at once", status=status)
        return status == 200

    def signed(self, key: str, content: bytes, headers: Mapping[str, str]) -> AWSRequest:
        request = AWSRequest("PUT", self._folder + quote(key, safe=_UNCHANGED), headers=dict(headers), data=content)
        S3SigV4Auth(self._credentials.get_frozen_credentials(), "s3", self._region).add_auth(request)
        return request
