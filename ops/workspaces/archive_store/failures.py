"""What S3 says, as one of the failures that the loops know."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from ops.workspaces.drivers.base import DriverCorrupt, DriverUnavailable

S3_ERRORS: Final = (ClientError, BotoCoreError, ResponseParserError, http.client.HTTPException, OSError)
"""Everything that a call, or reading its body, may raise."""
KEY_TAKEN: Final = "KeyTaken"
CORRUPTED: Final = "ArchiveCorrupted"
NOT_FOUND: Final = "ArchiveNotFound"
PATH_TOO_LONG: Final = "PathTooLong"


def s3_status(error: Exception) -> int | None:
    """Of an answer; None where there was none."""
    if not isinstance(error, ClientError):
        return None
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")


def s3_failure_said(error: Exception) -> str:
    """For people and logs: the kind of error alone. Its text may carry addresses and headers."""
    if isinstance(error, ClientError):
        return f"{error.operation_name}: {error.response.get('Error', {}).get('Code', '?')} {s3_status(error)}"
    return type(error).__name__


@contextmanager
def s3_unavailable() -> Iterator[None]:
    """Whatever S3 does not do in here says nothing about a workspace: a refused key or a missing bucket is ours."""
    try:
        yield
    except S3_ERRORS as error:
        raise DriverUnavailable(f"S3 did not answer as it should ({s3_failure_said(error)})") from error


def not_restorable(message: str) -> DriverCorrupt:
    return DriverCorrupt(message, reason=PATH_TOO_LONG, for_good=True)


def archive_corrupted(message: str) -> DriverCorrupt:
    return DriverCorrupt(message, reason=CORRUPTED)
