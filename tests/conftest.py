"""Fixtures that more than one folder needs."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import redis as redis_library

from dpp_project import clock as clock_module
from dpp_project import redis
from dpp_project.clock import FixedClock


@pytest.fixture
def clock() -> Iterator[FixedClock]:
    """Time stands still until the test moves it."""
    fixed = FixedClock(datetime(2026, 3, 1, 12, 0, tzinfo=UTC))
    with clock_module.use(fixed):
        yield fixed


@pytest.fixture
def valkey() -> redis_library.Redis:
    """This process's own Valkey, empty."""
    client = redis.client()
    client.flushall()
    return client
