"""Faults that others have reported of their workspaces, and that no other test shows of ours."""

from datetime import datetime, timedelta

import pytest

from dpp_project import clock
from ops.workspaces.host import sweeping
from ops.workspaces.host.monitor import Monitor
from ops.workspaces.models import Workspace, WorkspaceArchive, WorkspaceEvent
from ops.workspaces.rows import volumes
from ops.workspaces.rows.writing import writing_as
from ops.workspaces.states import DesiredState, Operation, Phase, Writer
from tests.gear.builders.workspace_world import CONTENT, World, began, running, watched
from tests.gear.faults.strikes import Fault
from tests.proving import proofs

pytestmark = pytest.mark.contract("WSP-11")
MANY = 50


def test_wsp_11_a_restart_in_the_middle_of_a_stop_is_a_restart(world: World) -> None:
    """At whichever call of the stop the wish comes back: it runs again, once, on its home."""
    one = running(world)
    calls = watched(world)
    world.comes_to(one, DesiredState.STANDBY)
    assert "remove_container" in calls
    for at in range(len(calls)):
        world.comes_to(one, DesiredState.RUNNING)
        calls = watched(world)
        starts = began(one, Operation.STARTING)

        def restart(_name: str, at: int = at, calls: list[str] = calls) -> None:
            if len(calls) == at + 1:
                world.wish(one, DesiredState.RUNNING)

        world.strike.before = restart
        world.wish(one, DesiredState.STANDBY)
        world.settles(one, Phase.RUNNING)
        world.strike.before = None
        assert (world.home(one), world.row(one).error_count) == (CONTENT, 0)
        assert began(one, Operation.STARTING) == starts + 1
        world.nothing_is_unaccounted()


def test_wsp_11_loops_that_begin_anew_over_fifty_that_run_ask_nothing_of_the_driver(world: World) -> None:
    those = world.standing(MANY)
    with writing_as(Writer.API):
        Workspace.objects.update(desired_state=DesiredState.RUNNING)
    world.until(those[-1], lambda _row: not Workspace.objects.exclude(phase="RUNNING", operation="NONE").exists())
    world.settles(those[0], Phase.RUNNING)
    effects, calls = world.driver.effects, watched(world)
    lines = WorkspaceEvent.objects.count()
    world.monitor = Monitor(world.driver, world.store, driver_id=world.driver_id)
    world.reconciler = world.a_reconciler()
    for _ in range(3):
        world.turn()
        world.time_passes(seconds=60)
    assert (world.driver.effects - effects, calls, WorkspaceEvent.objects.count() - lines) == (0, [], 0)
    assert len(world.driver.containers) == MANY


def test_wsp_11_what_an_attempt_that_died_has_filled_is_in_no_home(world: World) -> None:
    """Nor what was in the home before it was archived the last time."""
    one = running(world)
    world.writes(one, "of before", b"stale")
    world.comes_to(one, DesiredState.ARCHIVED)
    world.comes_to(one, DesiredState.RUNNING)
    del world.home(one)["of before"]
    world.comes_to(one, DesiredState.ARCHIVED)
    calls = watched(world)
    world.strike.at, world.strike.fault = 1, Fault.DIES_AFTER
    world.strike.names = frozenset({"ensure_volume", "import_"})
    world.wish(one, DesiredState.STANDBY)
    world.until(one, lambda _row: world.strike.struck == "import_")
    (half,) = world.driver.volumes.values()
    half.files["of the dead one"] = b"stale"
    world.converges(one, Phase.STANDBY)
    assert (world.home(one), calls.count("import_")) == (CONTENT, 2)
    world.nothing_is_unaccounted()


@pytest.mark.parametrize("count", [25, pytest.param(100, marks=pytest.mark.slow)])
def test_wsp_11_of_many_that_came_and_went_nothing_is_left(world: World, count: int) -> None:
    those = world.standing(count)
    with writing_as(Writer.API):
        Workspace.objects.update(desired_state=DesiredState.DELETED, delete_requested_at=_long_ago())
    world.until(those[-1], lambda _row: not Workspace.objects.filter(deleted_at__isnull=True).exists(), turns=400)
    sweeping.sweep_once(world.driver, driver_id=world.driver_id)
    assert (world.driver.volumes, world.driver.containers) == ({}, {})
    world.nothing_is_unaccounted()
    kept = set(WorkspaceArchive.objects.values_list("archive_key", flat=True))
    assert (len(kept), set(world.store.objects)) == (count, kept), "for seven days, and no more than these"
    assert not any(volumes.live_volume(one) for one in those)
    proofs.report(cases=count)


def _long_ago() -> datetime:
    return clock.now() - timedelta(minutes=1)
