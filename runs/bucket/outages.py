"""S3 away, or S3 with an answer about one object: a loop over many rows must tell the two apart.

An answer about one object (403, 404, an object that could not be deleted) is that row's alone. No answer, an error of
the service itself, or an answer about the bucket or the credentials holds for every object: the loop asks no more.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from runs.bucket.storage import ObjectsNotDeleted

# Of the bucket, the credentials or the load, whatever the status says.
_OF_EVERY_OBJECT: Final = frozenset(
    {
        *("NoSuchBucket", "InvalidBucketName", "PermanentRedirect", "AllAccessDisabled", "AccountProblem"),
        *("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "RequestTimeTooSkewed"),
        *("SlowDown", "RequestTimeout", "ThrottlingException"),
    }
)


class StorageAway(Exception):  # noqa: N818  a finding
    """S3 cannot be asked at the moment, about this object or any other."""


@contextmanager
def outages_told_apart() -> Iterator[None]:
    """Around one question to S3: StorageAway where S3 is away; an answer about the object is raised as it came."""
    try:
        yield
    except ClientError as error:
        if is_of_every_object(error):
            raise StorageAway from error
        raise
    except (BotoCoreError, OSError) as error:
        raise StorageAway from error


def s3_error_word(error: Exception) -> str:
    """What S3 answered about the object, in a word; of any other error its class alone, since its message may quote."""
    if isinstance(error, ObjectsNotDeleted):
        return str(error)
    if isinstance(error, ClientError):
        return f"S3 answered {error.response.get('Error', {}).get('Code', 'an error')}"
    return type(error).__name__


def is_of_every_object(error: ClientError) -> bool:
    """The other answers are about the one object that was asked for."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    about_the_bucket = error.operation_name == "HeadBucket"
    code = error.response.get("Error", {}).get("Code", "")
    return about_the_bucket or code in _OF_EVERY_OBJECT or status >= 500 or status == 429
