"""Fixtures of the tests that submit runs."""

import pytest
from redis import Redis

from budget import rebuild
from tests.gear import recovery
from tests.gear.shop import Shop, a_shop


@pytest.fixture
def shop(valkey: Redis, aws: str, transactional_db: None) -> Shop:
    """Open, with money, an empty queue and an empty bucket prefix."""
    recovery.empty_queues()
    rebuild.rebuild_all()
    return a_shop()
