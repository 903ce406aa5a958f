"""Each driver once for a module: a start is dear, and workspaces do not meet."""

from collections.abc import Iterator

import pytest

from ops.workspaces.drivers.base import Driver
from tests.gear.builders.workspace_drivers import DRIVERS, Inhabited, Tenancy
from tests.gear.builders.workspace_world import world

__all__ = ["world"]


@pytest.fixture(scope="module", params=["process", pytest.param("docker", marks=pytest.mark.slow)])
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    with DRIVERS[request.param]() as made:
        yield made


@pytest.fixture(scope="module")
def tenancy(driver: Driver) -> Tenancy:
    return Tenancy(driver)


@pytest.fixture(scope="module")
def workspace(tenancy: Tenancy) -> Inhabited:
    """One that the tests of a module share: they leave it running."""
    return tenancy.inhabited()
