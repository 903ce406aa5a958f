"""The archive bucket away, or its answer about one archive: a job over many rows must tell the two apart."""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import ClientError

from ops.workspaces.drivers.base import DriverUnavailable
from runs.bucket import outages
from runs.bucket.outages import StorageAway


@contextmanager
def bucket_outages_told_apart() -> Iterator[None]:
    """Around the store's calls for one row: StorageAway where the bucket is away; an answer about it as it came.

    The store says the same of both, since an operation on a workspace waits after either.
    """
    try:
        yield
    except DriverUnavailable as error:
        answer = error.__cause__
        if isinstance(answer, ClientError) and not outages.is_of_every_object(answer):
            raise answer from error
        raise StorageAway from error
