"""Operations that fail, homes that are lost, and what no row knows; what a person does about it."""

import pytest
from django.db import connection

from ops.workspaces import naming
from ops.workspaces.drivers.base import DriverCorrupt, DriverNoSpace, DriverRefused, Label, SeenContainer
from ops.workspaces.host import sweeping
from ops.workspaces.models import Workspace, WorkspaceArchive, WorkspaceEvent, WorkspaceVolume
from ops.workspaces.rows import transitions, volumes
from ops.workspaces.rows.writing import writing_as
from ops.workspaces.states import DesiredState, Operation, OperationStep, Phase, Writer
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.workspace_world import CONTENT, World, archived, began, running, watched
from tests.gear.faults.strikes import EFFECTS, LOOKS
from tests.proving import proofs

EVERY = pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
"""So many calls apart: all of them are for the proofs."""


@pytest.mark.contract("WSP-08")
def test_wsp_08_an_older_database_deletes_nothing_and_restores_nothing(world: World) -> None:
    one = archived(world)
    before = rows_of(world)
    world.comes_to(one, DesiredState.RUNNING)
    world.writes(one, "b", b"newer")
    world.comes_to(one, DesiredState.ARCHIVED)
    newest = str(world.row(one).archive_key)
    put_back(before)
    kept = set(world.store.objects)
    world.wish(one, DesiredState.RUNNING)
    world.until(one, lambda row: row.phase == "ERROR")
    assert world.seen(one).healthy.reason == "DatabaseBehind"
    assert newest in world.seen(one).healthy.message
    assert (set(world.store.objects), world.driver.volumes) == (kept, {})
    world.recover(one, f"archive:{newest}")
    world.converges(one, Phase.RUNNING)
    assert world.home(one) == CONTENT | {"b": b"newer"}


@pytest.mark.contract("WSP-08")
def test_wsp_08_a_home_that_an_older_database_does_not_know_is_kept(world: World) -> None:
    one = archived(world)
    before = rows_of(world)
    world.comes_to(one, DesiredState.STANDBY)
    unknown = set(world.driver.volumes)
    put_back(before)
    world.wish(one, DesiredState.RUNNING)
    world.until(one, lambda row: row.phase == "ERROR")
    assert world.seen(one).healthy.reason == "DatabaseBehind"
    report = sweeping.sweep_once(world.driver, driver_id=world.driver_id)
    assert (set(report.unknown), report.deleted, set(world.driver.volumes)) == (unknown, [], unknown)


@pytest.mark.contract("WSP-08")
def test_wsp_08_a_container_that_an_older_database_does_not_know_runs_on(world: World) -> None:
    one = running(world)
    world.comes_to(one, DesiredState.STANDBY)
    before = rows_of(world)
    world.comes_to(one, DesiredState.ARCHIVED)
    world.comes_to(one, DesiredState.RUNNING)
    world.writes(one, "b", b"newer")
    containers, homes = dict(world.driver.containers), {name: one.files for name, one in world.driver.volumes.items()}
    put_back(before)
    world.until(one, lambda row: row.phase == "ERROR")
    assert world.seen(one).healthy.reason == "VolumeLost"
    world.wish(one, DesiredState.DELETED, discard=True)
    world.until(one, lambda row: (row.error_info or {}).get("reason") == "DatabaseBehind")
    assert (world.driver.containers, set(world.driver.volumes)) == (containers, set(homes))


@pytest.mark.contract("WSP-08")
@pytest.mark.parametrize("step", [OperationStep.VERIFY.value, OperationStep.SEE_ARCHIVE.value])
def test_wsp_08_an_older_database_in_the_middle_of_an_archiving_archives_what_came_since(
    world: World, step: str
) -> None:
    """The copy's operation goes on: its archive is there, by token and epoch, and is of an older home."""
    one = running(world)
    copies: dict[str, dict[str, str]] = {}
    world.wish(one, DesiredState.ARCHIVED)

    def copy(_name: str) -> None:
        copies.setdefault(world.row(one).op_step, rows_of(world))

    def waits_at(_row: Workspace) -> bool:
        copy("")  # between its turns, where it waits for a look
        return step in copies

    world.strike.names = EFFECTS | LOOKS
    world.strike.before = copy
    world.until(one, waits_at)
    world.strike.before = None
    world.wish(one, DesiredState.RUNNING)
    world.converges(one, Phase.RUNNING)
    world.writes(one, "b", b"newer")
    world.comes_to(one, DesiredState.STANDBY)
    put_back(copies[step])
    world.settles(one, Phase.ARCHIVED)
    world.comes_to(one, DesiredState.RUNNING)
    assert world.home(one) == CONTENT | {"b": b"newer"}


@pytest.mark.contract("WSP-08")
def test_wsp_08_an_older_database_in_the_middle_of_a_restore_deletes_no_home_that_came_of_it(world: World) -> None:
    """In the copy the volume is half full and nobody's; in truth it has been lived in."""
    one, copies = archived(world), {}
    watched(world)
    world.strike.before = lambda name: copies.update({name: rows_of(world)})
    world.comes_to(one, DesiredState.RUNNING)
    world.strike.before = None
    world.writes(one, "b", b"newer")
    world.comes_to(one, DesiredState.STANDBY)
    homes = {name: dict(found.files) for name, found in world.driver.volumes.items()}
    assert list(homes.values()) == [CONTENT | {"b": b"newer"}]
    put_back(copies["import_"])
    world.time_passes(seconds=400)
    world.until(one, lambda row: row.phase == "ERROR")
    assert world.seen(one).healthy.reason == "DatabaseBehind"
    world.time_passes(seconds=400)
    report = sweeping.sweep_once(world.driver, driver_id=world.driver_id)
    assert report.deleted == []
    assert {name: dict(found.files) for name, found in world.driver.volumes.items()} == homes


@pytest.mark.contract("WSP-08")
def test_wsp_08_a_person_who_gives_a_home_up_is_told_first_what_is_unknown(world: World) -> None:
    one = archived(world)
    before = rows_of(world)
    first = str(world.row(one).archive_key)
    world.comes_to(one, DesiredState.RUNNING)
    world.writes(one, "b", b"newer")
    world.comes_to(one, DesiredState.ARCHIVED)
    put_back(before)
    stored = world.store.objects.pop(first)
    world.recover(one, "recheck")
    world.until(one, lambda row: row.phase == "ERROR")
    assert world.seen(one).healthy.reason == "ArchiveAccessError"
    world.recover(one, "empty")
    world.wish(one, DesiredState.RUNNING)
    world.until(one, lambda row: (row.error_info or {}).get("reason") == "DatabaseBehind")
    assert world.driver.volumes == {}
    world.recover(one, "empty")
    world.converges(one, Phase.RUNNING)
    assert (world.home(one), first in world.store.objects, stored.content != b"") == ({}, False, True)


TABLES = ("workspace_events", "workspace_volumes", "workspace_archives", "workspaces")


def rows_of(world: World) -> dict[str, str]:
    found = {}
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"SELECT coalesce(json_agg(t), '[]')::text FROM {table} t")  # noqa: S608  ours
            found[table] = cursor.fetchone()[0]
    assert world.tenant is not None
    return found


def put_back(rows: dict[str, str]) -> None:
    """An older copy of the tables."""
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"DELETE FROM {table}")  # noqa: S608  ours
        for table in reversed(TABLES):
            cursor.execute(
                f"INSERT INTO {table} OVERRIDING SYSTEM VALUE"  # noqa: S608  ours
                f" SELECT * FROM json_populate_recordset(NULL::{table}, %s::json)",
                [rows[table]],
            )


@pytest.mark.contract("WSP-09")
def test_wsp_09_the_tenth_counted_failure_is_the_last_and_a_person_goes_on(world: World) -> None:
    one = archived(world)
    world.driver.free = 1  # no room for a restore
    world.wish(one, DesiredState.RUNNING)
    ids = set()

    def is_over(row: Workspace) -> bool:
        ids.add(row.op_id)
        return row.phase == Phase.ERROR

    row = world.until(one, is_over)
    assert row.error_info is not None
    assert (row.error_count, row.error_info["reason"], row.error_info["is_terminal"]) == (10, "NoSpace", True)
    assert (row.operation, row.op_id is not None, world.driver.volumes) == ("NONE", True, {})
    assert began(one, Operation.RESTORING) == 10
    seen = world.seen(one)
    assert (seen.archive.status, seen.volume.status, seen.healthy.reason) == (True, False, "NoSpace")
    begun = began(one, Operation.RESTORING)
    for _ in range(3):
        world.time_passes(seconds=600)
        world.turn()
    assert began(one, Operation.RESTORING) == begun
    world.driver.free = 1 << 40
    world.recover(one, "recheck")
    world.converges(one, Phase.RUNNING)
    assert (world.home(one), world.row(one).recovered_generation) == (CONTENT, 1)


@pytest.mark.contract("WSP-09")
def test_wsp_09_a_driver_that_is_away_is_waited_for_and_never_counted(world: World) -> None:
    one = running(world)
    watched(world)

    def goes_away(name: str) -> None:
        world.store.is_away = world.store.is_away or name == "upload"

    world.strike.before = goes_away
    world.wish(one, DesiredState.ARCHIVED)
    pauses = []
    for _ in range(16):
        world.turn()
        pauses.append(world.row(one).reconcile_failure_count)
        world.time_passes(seconds=400)
    row = world.row(one)
    assert row.error_info is not None
    assert (max(pauses) > 10, row.error_count, row.operation) == (True, 0, "ARCHIVING")
    assert (row.phase, row.error_info["is_terminal"]) == ("STANDBY", False)
    assert WorkspaceEvent.objects.filter(workspace=one, kind="OperationPutOff").count() == 1
    world.strike.before, world.store.is_away = None, False
    world.converges(one, Phase.ARCHIVED)
    assert world.row(one).reconcile_failure_count == 0


@pytest.mark.contract("WSP-09")
def test_wsp_09_a_container_that_ends_at_once_is_started_ten_times(world: World) -> None:
    one = world.workspace()
    starts = 0
    for _ in range(400):
        world.turn()
        row = world.row(one)
        if row.phase == Phase.ERROR:
            break
        if (found := world.driver.look_container(naming.container_name(one))) is not None and found.running:
            starts += 1
            world.driver.exits(found.container_id, after_seconds=2, oom=True)
        world.time_passes(seconds=400)
    assert (world.row(one).phase, starts, world.row(one).error_count) == ("ERROR", 10, 10)
    assert world.seen(one).healthy.reason == "OutOfMemory"


@pytest.mark.contract("WSP-09")
def test_wsp_09_a_container_that_ran_for_long_is_started_again_uncounted(world: World) -> None:
    one = running(world)
    world.driver.exits(world.container(one).container_id, after_seconds=60)
    world.settles(one, Phase.RUNNING)
    assert (world.row(one).error_count, world.home(one)) == (0, CONTENT)


@EVERY
@pytest.mark.contract("WSP-10")
def test_wsp_10_a_deletion_that_is_taken_back_at_any_step_keeps_the_home(world: World, every: int) -> None:
    one = running(world)
    calls = watched(world)
    world.wish(one, DesiredState.DELETED)
    world.converges(one, Phase.DELETED)
    places = range(0, len(calls), every)
    for at in places:
        world.comes_to(one, DesiredState.RUNNING)
        assert world.home(one) == CONTENT
        calls = watched(world)

        def undelete(_name: str, at: int = at, calls: list[str] = calls) -> None:
            if len(calls) == at + 1:
                world.wish(one, DesiredState.RUNNING)

        world.strike.before = undelete
        world.wish(one, DesiredState.DELETED)
        for _ in range(20):
            world.turn()
        world.strike.before = None
    world.comes_to(one, DesiredState.RUNNING)
    assert world.home(one) == CONTENT
    proofs.report(cases=len(places))


@pytest.mark.contract("WSP-10")
def test_wsp_10_from_error_only_an_explicit_discard_deletes(world: World) -> None:
    one = running(world)
    world.comes_to(one, DesiredState.STANDBY)
    with writing_as(Writer.RECONCILER):
        info = {"reason": "Broken", "message": "", "is_terminal": True}
        Workspace.objects.filter(pk=one).update(error_info=info, rev=world.row(one).rev + 1)
    world.wish(one, DesiredState.DELETED)
    for _ in range(4):
        world.turn()
        world.time_passes(seconds=60)
    assert (world.row(one).phase, world.home(one)) == ("ERROR", CONTENT)
    world.wish(one, DesiredState.DELETED, discard=True)
    row = world.converges(one, Phase.DELETED)
    assert (row.deleted_at is not None, world.driver.volumes, world.driver.containers) == (True, {}, {})
    assert list(WorkspaceVolume.objects.values_list("state", flat=True)) == ["GONE"]


@pytest.mark.contract("WSP-10")
def test_wsp_10_what_is_still_seen_is_not_deleted(world: World) -> None:
    one = archived(world)
    world.driver.containers["late"] = SeenContainer(
        "late", naming.container_name(one), Label(str(one), "op", 1), None, running=True
    )
    world.wish(one, DesiredState.DELETED)
    row = world.converges(one, Phase.DELETED)
    assert (row.deleted_at is not None, world.driver.containers) == (True, {})
    assert transitions.purge_workspace(one) is True
    assert world.row(one).archive_key is None


@pytest.mark.contract("WSP-06")
@pytest.mark.parametrize("way", ["archive", "empty"])
def test_wsp_06_a_lost_home_is_given_up_by_a_person_alone(world: World, way: str) -> None:
    one = archived(world)
    key = str(world.row(one).archive_key)
    world.comes_to(one, DesiredState.RUNNING)
    world.recover(one, "empty")
    world.until(one, lambda row: row.recovered_generation == 1)
    assert (world.row(one).phase, world.home(one)) == ("RUNNING", CONTENT)  # it is there, and stays
    world.driver.containers.clear()
    world.driver.volumes.clear()
    world.time_passes(seconds=60)
    world.until(one, lambda row: row.phase == "ERROR")
    for _ in range(3):
        world.time_passes(seconds=600)
        world.turn()
    assert world.seen(one).healthy.reason == "VolumeLost"
    world.recover(one, f"archive:{key}" if way == "archive" else "empty")
    world.converges(one, Phase.RUNNING)
    assert world.home(one) == (CONTENT if way == "archive" else {})
    assert key in world.store.objects


@pytest.mark.contract("WSP-14")
def test_wsp_14_rows_of_another_host_are_left_to_it(world: World) -> None:
    one = running(world)
    other = World(a_tenant(), driver_id="elsewhere")
    effects = world.driver.effects
    world.wish(one, DesiredState.ARCHIVED)
    for _ in range(4):
        other.turn()
        world.time_passes(seconds=60)
    assert (world.row(one).phase, world.driver.effects, other.driver.effects) == ("RUNNING", effects, 0)
    docker_only = world.workspace(spec={"image": "an-image"})
    for _ in range(3):
        world.turn()
    assert world.row(docker_only).driver_id is None


@pytest.mark.contract("WSP-07", "WSP-09")
def test_wsp_07_an_archive_that_no_restore_could_make_is_no_archive_and_tried_once(world: World) -> None:
    one = running(world)

    def fails(name: str) -> None:
        if name == "verify":
            raise DriverCorrupt("a path is too long", reason="PathTooLong", for_good=True)

    calls = watched(world)
    world.strike.before = fails
    world.wish(one, DesiredState.ARCHIVED)
    row = world.until(one, lambda row: row.phase == Phase.ERROR)
    assert (world.seen(one).healthy.reason, row.error_count, calls.count("upload")) == ("PathTooLong", 1, 1)
    assert (row.archive_key, world.home(one)) == (None, CONTENT)
    world.strike.before = None
    world.wish(one, DesiredState.RUNNING)
    world.recover(one, "recheck")
    world.converges(one, Phase.RUNNING)
    assert world.home(one) == CONTENT


@pytest.mark.contract("WSP-09")
@pytest.mark.parametrize("error", [DriverNoSpace("full"), DriverRefused("no"), ValueError("a fault of ours")])
def test_wsp_09_a_failure_ends_its_operation_and_its_id(world: World, error: Exception) -> None:
    one = running(world)

    def fails(name: str) -> None:
        if name == "upload":
            raise error

    watched(world)
    world.strike.before = fails
    world.wish(one, DesiredState.ARCHIVED)
    row = world.until(one, lambda row: row.error_count == 2)
    assert (row.operation, volumes.live_volume(one) is not None) == ("NONE", True)
    world.strike.before = None
    row = world.converges(one, Phase.ARCHIVED)
    ids = WorkspaceArchive.objects.values_list("op_id", flat=True)
    assert (len(set(ids)), row.error_count, row.error_info) == (3, 0, None)
