"""One level at a time, up and down, and what the home holds all the way."""

import pytest

from ops.workspaces.models import WorkspaceEvent
from ops.workspaces.states import DesiredState, Phase
from tests.gear.builders.workspace_world import World

pytestmark = pytest.mark.contract("WSP-05")


def test_wsp_05_a_workspace_goes_up_and_down_and_keeps_its_home(world: World) -> None:
    one = world.workspace()
    world.converges(one, Phase.RUNNING)
    world.writes(one, "a", b"first")
    world.comes_to(one, DesiredState.ARCHIVED)
    assert (world.driver.volumes, world.driver.containers) == ({}, {})
    world.comes_to(one, DesiredState.RUNNING)
    assert world.home(one) == {"a": b"first"}
    world.writes(one, "b", b"second")
    world.wish(one, DesiredState.DELETED)
    row = world.converges(one, Phase.DELETED)
    assert (row.deleted_at is not None, row.archive_key in world.store.objects) == (True, True)
    world.nothing_is_unaccounted()
    begun = WorkspaceEvent.objects.filter(workspace=one, kind="OperationBegun").order_by("id")
    assert [event.detail["operation"] for event in begun] == [
        "PROVISIONING",
        "STARTING",
        "STOPPING",
        "ARCHIVING",
        "RESTORING",
        "STARTING",
        "STOPPING",
        "ARCHIVING",
        "DELETING",
    ]
