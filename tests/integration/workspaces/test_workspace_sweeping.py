"""What processes that died have left at a driver goes with the sweeper, and nothing that is somebody's."""

import os
import uuid
from pathlib import Path

import pytest

from ops.workspaces import metrics, naming
from ops.workspaces.drivers.base import DriverUnavailable, Label, VerbAnswer
from ops.workspaces.drivers.process.volumes import Volumes
from ops.workspaces.host import sweeping
from ops.workspaces.models import WorkspaceVolume
from ops.workspaces.rows import driver_rows, volumes
from ops.workspaces.states import VolumeState
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.workspace_drivers import Tenancy, process_driver
from tests.gear.builders.workspace_world import DRIVER_ID, World

pytestmark = [pytest.mark.django_db, pytest.mark.contract("WSP-08")]


def a_dead_volume(world: World, workspace_id: uuid.UUID, *, is_there: bool) -> str:
    op_id = uuid.uuid4()
    row = volumes.prepare_volume(workspace_id, driver_id=world.driver_id, op_id=op_id, attempt=1, filled_from=None)
    if is_there:
        world.driver.ensure_volume(row.pk, Label(str(workspace_id), str(op_id), 1))
    assert volumes.doom_unfinished(workspace_id) == 1
    return row.pk


def state_of(name: str) -> str:
    return str(WorkspaceVolume.objects.get(pk=name).state)


def test_wsp_08_a_dead_volume_that_no_list_shows_is_accounted_for(world: World) -> None:
    """A death before it was made, or after it was deleted: its row would count against its tenant for ever."""
    one, other = world.standing(2)
    never_made, left_over = a_dead_volume(world, one, is_there=False), a_dead_volume(world, other, is_there=True)
    homes = {volumes.live_volume(one).pk, volumes.live_volume(other).pk}  # type: ignore[union-attr]
    report = sweeping.sweep_once(world.driver, driver_id=world.driver_id)
    assert (state_of(never_made), state_of(left_over)) == ("GONE", "GONE")
    assert (report.deleted, set(world.driver.volumes)) == ([left_over], homes)


def test_wsp_08_what_cannot_be_deleted_keeps_nothing_else(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = world.standing(2)
    stays, goes = sorted(a_dead_volume(world, each, is_there=True) for each in (one, other))
    plain = world.driver.delete_volume

    def delete(name: str, *, starts: int | None = None) -> VerbAnswer:
        if name == stays:
            raise DriverUnavailable("it does not go")
        return plain(name, starts=starts)

    monkeypatch.setattr(world.driver, "delete_volume", delete)
    world.driver.ensure_volume(
        unknown := naming.volume_name(one, op_id=uuid.uuid4(), attempt=7), Label(str(one), "op", 7)
    )
    report = sweeping.sweep_once(world.driver, driver_id=world.driver_id)
    assert (report.deleted, report.unknown) == ([goes], [unknown])
    assert (state_of(stays), state_of(goes), stays in world.driver.volumes) == ("DOOMED", "GONE", True)
    told = metrics.UNKNOWN_AT_DRIVER.labels(driver=world.driver_id)._value.get()
    assert told == 1


def left_half_made(root: Path) -> list[Path]:
    """A container without its record, a volume without its name, a lock of neither."""
    made = [root / "containers" / f"ws-{uuid.uuid4()}", root / "drafts" / f"ws-{uuid.uuid4()}.x"]
    for folder in made:
        folder.mkdir()
    (lock := root / "locks" / f"v-{uuid.uuid4()}").touch()
    return [*made, lock]


def test_wsp_08_what_is_left_half_made_is_removed_an_hour_later() -> None:
    """Whatever the process that began it was at; nothing that is young, and nothing that a list shows."""
    with process_driver() as driver:
        driver_rows.register_driver(DRIVER_ID, driver)
        kept = Tenancy(driver).inhabited()
        folders = [driver._root / name for name in ("containers", "drafts", "locks")]
        young, old = left_half_made(driver._root), left_half_made(driver._root)
        for path in old:
            os.utime(path, (0, 0))
        before = {path for folder in folders for path in folder.iterdir()}
        sweeping.sweep_once(driver, driver_id=DRIVER_ID)
        assert before - {path for folder in folders for path in folder.iterdir()} == set(old)
        assert kept.shell("echo runs") == "runs\n"
        kept.remove()
        for path in young:
            os.utime(path, (0, 0))
        driver.remove_leftovers()


def _breaks_off(_place: Path) -> None:
    raise DriverUnavailable("it broke off")


def test_wsp_08_a_deletion_that_broke_off_goes_on_with_the_sweeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renamed away it is in no list; its files would have stayed."""
    with process_driver() as driver:
        driver_rows.register_driver(DRIVER_ID, driver)
        world = World(a_tenant(), driver_id="elsewhere")
        one = world.workspace()
        op_id = uuid.uuid4()
        row = volumes.prepare_volume(one, driver_id=DRIVER_ID, op_id=op_id, attempt=1, filled_from=None)
        driver.ensure_volume(row.pk, Label(str(one), str(op_id), 1))
        volumes.doom_unfinished(one)
        with monkeypatch.context() as patch:
            patch.setattr(Volumes, "remove_doomed", staticmethod(_breaks_off))
            sweeping.sweep_once(driver, driver_id=DRIVER_ID)
        assert (state_of(row.pk), len(driver._volumes.doomed(row.pk))) == ("DOOMED", 1)
        assert driver.look_volume(row.pk) is None
        sweeping.sweep_once(driver, driver_id=DRIVER_ID)
        assert (state_of(row.pk), driver._volumes.doomed(row.pk)) == (VolumeState.GONE, [])
