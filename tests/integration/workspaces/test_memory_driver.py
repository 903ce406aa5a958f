"""The driver in memory answers as the real ones do: the same tests, but for those that look from inside a container."""

import uuid
from dataclasses import replace

import pytest

from ops.workspaces.drivers.base import DriverRefused, VerbAnswer, WorkspaceSpec
from tests.gear.builders.workspace_drivers import Tenancy
from tests.gear.reference.memory_driver import MemoryDriver
from tests.integration.workspaces.test_driver_contract import (
    test_a_name_is_one_operation_s,
    test_a_volume_is_one_workspace_s,
    test_of_many_at_once_one_does_it,
    test_the_sentinel_is_placed_once_and_read_with_every_list,
    test_what_fills_a_volume_is_read_to_its_end,
)

__all__ = [
    "test_a_name_is_one_operation_s",
    "test_a_volume_is_one_workspace_s",
    "test_of_many_at_once_one_does_it",
    "test_the_sentinel_is_placed_once_and_read_with_every_list",
    "test_what_fills_a_volume_is_read_to_its_end",
]

pytestmark = pytest.mark.contract("WSP-11")


@pytest.fixture(scope="module")
def driver() -> MemoryDriver:
    return MemoryDriver()


def test_an_ended_container_keeps_its_name_from_another_operation(driver: MemoryDriver, tenancy: Tenancy) -> None:
    inhabited = tenancy.inhabited()
    label = replace(inhabited.label, op_id=str(uuid.uuid4()))
    driver.exits(inhabited.container_id)
    assert driver.place_placeholder(name=inhabited.name, label=label) is VerbAnswer.IN_USE
    with pytest.raises(DriverRefused):
        driver.start(name=inhabited.name, volume=inhabited.volume, spec=WorkspaceSpec(), label=label, spec_hash="1")
    assert driver.users_of(inhabited.volume) == (inhabited.container_id,)
    assert driver.delete_volume(inhabited.volume) is VerbAnswer.IN_USE
