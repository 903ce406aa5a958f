"""What the monitor writes down of what it sees, and what it does not."""

import threading
import uuid
from dataclasses import replace
from typing import Any

import pytest

from ops.workspaces.drivers.base import DriverUnavailable, Label, Listing, SeenVolume
from ops.workspaces.host.monitor import Monitor
from ops.workspaces.models import WorkspaceDriver, WorkspaceEvent
from ops.workspaces.rows import transitions, volumes
from ops.workspaces.states import DesiredState, Phase
from tests.gear.builders.workspace_world import DRIVER_ID, World
from tests.gear.reference.memory_driver import MemoryDriver


class Blind(MemoryDriver):
    """Its list forgets a volume; its looks do not, unless they fail or hang."""

    def __init__(self, real: MemoryDriver, *forgotten: str) -> None:
        self.__dict__ = dict(real.__dict__)
        self.forgotten, self.fails = forgotten, False
        self.hangs: tuple[str, threading.Event] | None = None

    def list(self) -> Listing:
        seen = super().list()
        return replace(seen, volumes=tuple(one for one in seen.volumes if one.name not in self.forgotten))

    def look_volume(self, name: str) -> SeenVolume | None:
        if self.hangs is not None and name == self.hangs[0]:
            self.hangs[1].wait(30)
        if self.fails:
            raise DriverUnavailable("it does not say")
        return super().look_volume(name)


def home(workspace_id: uuid.UUID) -> str:
    found = volumes.live_volume(workspace_id)
    assert found is not None
    return found.volume_name


def lose(world: World, workspace_id: uuid.UUID) -> Any:
    return world.driver.volumes.pop(home(workspace_id))


@pytest.mark.contract("WSP-01")
def test_wsp_01_a_driver_that_is_away_changes_no_truth_and_nothing_begins(world: World) -> None:
    one = world.workspace()
    world.converges(one, Phase.RUNNING)
    before = world.row(one)
    world.driver.is_away = True
    world.wish(one, DesiredState.STANDBY)
    for _ in range(3):
        world.time_passes(seconds=60)
        world.turn()
    row = world.row(one)
    assert (row.phase, row.operation, row.observed_rev) == ("RUNNING", "NONE", before.observed_rev)
    seen = world.seen(one)
    assert (seen.volume.status, seen.volume.stale, seen.container.stale, seen.healthy.stale) == (True, True, True, True)
    world.driver.is_away = False
    world.converges(one, Phase.STANDBY)
    assert world.seen(one).healthy.stale is False


@pytest.mark.contract("WSP-06")
def test_wsp_06_a_list_of_another_disk_is_no_look(world: World) -> None:
    one = world.workspace()
    world.converges(one, Phase.RUNNING)
    world.driver.sentinel, was = "another", world.driver.sentinel
    kept, world.driver.volumes = world.driver.volumes, {}
    world.time_passes(seconds=60)
    assert world.look().stale == 1
    assert (world.row(one).phase, world.seen(one).volume.stale) == ("RUNNING", True)
    world.driver.sentinel, world.driver.volumes = was, kept
    world.look()
    assert world.seen(one).volume.stale is False


@pytest.mark.contract("WSP-06")
def test_wsp_06_what_the_list_lacks_is_asked_for_by_name(world: World) -> None:
    one = world.workspace()
    world.converges(one, Phase.RUNNING)
    blind = Blind(world.driver, home(one))
    monitor = Monitor(blind, world.store, driver_id=DRIVER_ID)
    world.time_passes(seconds=60)
    monitor.run_once()
    assert world.row(one).phase == "RUNNING"
    assert world.seen(one).volume.stale is False
    blind.fails = True
    world.time_passes(seconds=60)
    monitor.run_once()
    assert (world.row(one).phase, world.seen(one).volume.stale) == ("RUNNING", True)


@pytest.mark.contract("WSP-06")
def test_wsp_06_a_lost_volume_is_an_error_until_it_is_back(world: World) -> None:
    one = world.workspace()
    world.converges(one, Phase.RUNNING)
    world.comes_to(one, DesiredState.STANDBY)
    name, lost = home(one), lose(world, one)
    world.time_passes(seconds=60)
    world.turn()
    row = world.row(one)
    assert (row.phase, world.seen(one).healthy.reason) == ("ERROR", "VolumeLost")
    world.wish(one, DesiredState.RUNNING)
    effects = world.driver.effects
    for label in (None, Label(str(one), "another", 1)):  # made anew by another program
        world.driver.volumes[name] = replace(lost, label=label)
        world.time_passes(seconds=60)
        world.turn()
        world.turn()
    assert (world.row(one).phase, world.driver.effects) == ("ERROR", effects)
    world.driver.volumes[name] = lost
    world.converges(one, Phase.RUNNING)
    phases = WorkspaceEvent.objects.filter(workspace=one, kind="PhaseChanged").order_by("id")
    assert [event.detail["after"] for event in phases][-3:] == ["ERROR", "STANDBY", "RUNNING"]


@pytest.mark.contract("WSP-06")
def test_wsp_06_a_container_without_its_volume_is_an_error(world: World) -> None:
    one = world.workspace()
    world.converges(one, Phase.RUNNING)
    lose(world, one)
    world.time_passes(seconds=60)
    world.turn()
    seen = world.seen(one)
    assert (world.row(one).phase, seen.healthy.reason) == ("ERROR", "ContainerWithoutVolume")
    assert (seen.container.status, seen.volume.status) == (True, False)  # conditions stay true in ERROR


@pytest.mark.contract("WSP-01")
def test_wsp_01_one_look_that_hangs_keeps_no_other_row_waiting(world: World) -> None:
    one, other = world.workspace(), world.workspace()
    world.converges(one, Phase.RUNNING)
    world.converges(other, Phase.RUNNING)
    blind, released = Blind(world.driver, home(one)), threading.Event()
    blind.hangs = (home(one), released)
    monitor = Monitor(blind, world.store, driver_id=DRIVER_ID, looks_seconds=0.05)
    world.driver.exits(world.container(other).container_id)
    world.time_passes(seconds=60)
    report = monitor.run_once()
    assert (report.changed, report.stale) == ([other], 1)
    assert (world.seen(one).volume.stale, world.seen(one).volume.status) == (True, True)
    world.time_passes(seconds=60)
    assert monitor.run_once().looked_at == 1  # it is not asked again while it hangs
    assert world.seen(one).volume.stale is True
    released.set()


@pytest.mark.contract("WSP-05")
@pytest.mark.parametrize("late_sees", ["ContainerRunning", "ContainerExited"])
def test_wsp_05_a_late_look_loses_to_the_one_that_was_written(world: World, late_sees: str) -> None:
    one = world.workspace()
    world.converges(one, Phase.RUNNING)
    container = world.container(one).container_id

    class Overtaken(MemoryDriver):
        def __init__(self) -> None:
            self.__dict__ = world.driver.__dict__

        def list(self) -> Listing:
            runs = dict(world.driver.containers)
            if late_sees == "ContainerExited":
                world.driver.exits(container)
            seen = super().list()
            if late_sees == "ContainerExited":
                world.driver.containers |= runs
            else:
                world.driver.exits(container)
            world.look()  # another monitor looks, and writes first
            return seen

    world.time_passes(seconds=60)
    late = Monitor(Overtaken(), world.store, driver_id=DRIVER_ID).run_once()
    assert late.looked_at == 0
    written = {"ContainerRunning": "ContainerExited", "ContainerExited": "ContainerRunning"}[late_sees]
    assert world.seen(one).container.reason == written


@pytest.mark.contract("WSP-05")
def test_wsp_05_a_look_counts_for_what_was_done_before_it_began(world: World) -> None:
    one = world.workspace()

    class Meanwhile(MemoryDriver):
        def __init__(self) -> None:
            self.__dict__ = world.driver.__dict__

        def list(self) -> Listing:
            seen = super().list()
            world.act()  # the reconciler has an effect between the list and the row
            return seen

    world.turn()  # adopts it
    world.look()
    before = world.row(one)
    assert (before.operation, before.phase) == ("NONE", "PENDING")
    world.time_passes(seconds=60)
    Monitor(Meanwhile(), world.store, driver_id=DRIVER_ID).run_once()
    row = world.row(one)
    assert (row.operation, row.observed_rev < row.rev) == ("PROVISIONING", True)


@pytest.mark.contract("WSP-04")
def test_wsp_04_what_is_at_work_is_looked_at_more_often(world: World) -> None:
    (one,) = world.standing(1)
    world.look()

    def due_after(seconds: float) -> bool:
        world.time_passes(seconds=seconds)
        return world.look().looked_at == 1

    assert (due_after(29), due_after(1)) == (False, True)
    world.wish(one, DesiredState.RUNNING)
    assert due_after(0)  # the API's change is looked at once
    assert (due_after(4), due_after(1)) == (False, True)
    world.act()
    world.look()
    assert world.row(one).operation == "STARTING"
    assert (due_after(1), due_after(1)) == (False, True)


@pytest.mark.contract("WSP-05")
def test_wsp_05_a_look_that_finds_all_as_it_was_says_what_it_has_caught_up_with(world: World) -> None:
    one = world.workspace()
    world.converges(one, Phase.RUNNING)
    world.look()
    transitions.doubt_workspace(one)
    seen = world.look()
    assert (seen.changed, seen.caught_up) == ([], [one])
    assert world.look().caught_up == []


@pytest.mark.contract("WSP-01")
def test_wsp_01_the_bucket_is_asked_when_something_was_done_and_not_otherwise(world: World) -> None:
    one = world.workspace()
    world.converges(one, Phase.RUNNING)
    world.comes_to(one, DesiredState.ARCHIVED)
    world.time_passes(seconds=60)
    world.look()
    asked = world.store.looks
    for _ in range(5):
        world.time_passes(seconds=60)
        assert world.look().unchanged == 1
    assert world.store.looks == asked


@pytest.mark.contract("WSP-01")
def test_wsp_01_a_bucket_that_is_away_makes_no_error_and_one_that_says_no_does(world: World) -> None:
    one = world.workspace()
    world.converges(one, Phase.RUNNING)
    row = world.comes_to(one, DesiredState.ARCHIVED)
    kept = dict(world.store.objects)
    world.store.is_away = True
    world.recover(one, "recheck")
    world.wish(one, DesiredState.RUNNING)
    for _ in range(3):
        world.time_passes(seconds=400)
        world.turn()
    assert (world.row(one).phase, world.row(one).operation) == ("ARCHIVED", row.operation)
    world.store.is_away = False
    world.store.objects.clear()
    for _ in range(3):
        world.time_passes(seconds=400)
        world.turn()
    world.until(one, lambda row: row.phase == "ERROR")
    assert world.seen(one).archive.reason == "ArchiveNotFound"
    assert world.seen(one).healthy.reason == "ArchiveAccessError"
    world.store.objects |= kept
    world.recover(one, "recheck")
    world.converges(one, Phase.RUNNING)


@pytest.mark.contract("WSP-01")
def test_wsp_01_an_archive_that_is_not_the_one_read_back_is_corrupted(world: World) -> None:
    one = world.workspace()
    world.converges(one, Phase.RUNNING)
    row = world.comes_to(one, DesiredState.ARCHIVED)
    stored = world.store.objects[str(row.archive_key)]
    world.store.objects[str(row.archive_key)] = replace(stored, content=stored.content + b"\0")
    world.recover(one, "recheck")
    world.until(one, lambda row: row.phase == "ERROR")
    assert world.seen(one).archive.reason == "ArchiveCorrupted"


@pytest.mark.contract("WSP-14")
@pytest.mark.parametrize(("there", "gone", "freezes"), [(20, 5, True), (25, 5, False), (6, 4, False)])
def test_wsp_14_much_gone_at_once_freezes_the_driver(world: World, there: int, gone: int, freezes: bool) -> None:  # noqa: FBT001  a case
    all_of_them = world.standing(there)
    lost = {home(one): lose(world, one) for one in all_of_them[:gone]}
    world.wish(all_of_them[0], DesiredState.ARCHIVED)
    world.wish(all_of_them[-1], DesiredState.ARCHIVED)
    world.time_passes(seconds=60)
    effects = world.driver.effects
    world.turn()
    world.turn()
    row = WorkspaceDriver.objects.get(pk=DRIVER_ID)
    assert (row.frozen_at is not None, world.driver.effects == effects) == (freezes, freezes)
    assert world.row(all_of_them[0]).phase == "ERROR"  # it is looked at all the same
    if freezes:
        assert row.frozen_reason == f"{gone} of {there} volumes were gone at once"
        world.driver.volumes |= lost
        WorkspaceDriver.objects.filter(pk=DRIVER_ID).update(frozen_at=None)
        world.converges(all_of_them[0], Phase.ARCHIVED)
