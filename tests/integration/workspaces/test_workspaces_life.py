"""What is asked for through the services, carried out by both loops: the one knows the other by the rows alone."""

from datetime import timedelta
from typing import Any

import pytest

from dpp_project import clock
from ops.workspaces import explaining, selectors, services
from ops.workspaces.explaining import Actor
from ops.workspaces.models import Workspace, WorkspaceDriver
from ops.workspaces.rows import archives, transitions
from ops.workspaces.specs import SpecDocument
from ops.workspaces.states import DesiredState, Phase, Writer
from ops.workspaces.upkeep import purging, resting
from tests.gear.builders.workspace_rows import a_workspace, sold, unused, written
from tests.gear.builders.workspace_world import World

__all__ = ["sold"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sold", "valkey"), pytest.mark.contract("WSP-12")]
ME = "owner:dpp_test"


def next_actor(row: Workspace) -> Actor:
    driver = WorkspaceDriver.objects.filter(pk=row.driver_id).first()
    return explaining.explain_workspace(row, driver, now=clock.now()).next_actor


def test_wsp_12_a_life_from_its_creation_over_rests_and_wakes_to_its_purge(world: World) -> None:
    one = a_workspace(world.tenant, standby_ttl_seconds=60, archive_ttl_seconds=120).pk
    assert next_actor(world.row(one)) is Actor.HOST
    assert next_actor(world.converges(one, Phase.RUNNING)) is Actor.TTL
    world.writes(one, "a", b"mine")
    was = world.container(one).container_id
    services.change_workspace(workspace_id=one, actor=ME, wanted={"spec": SpecDocument(env={"STAGE": "test"})})
    world.until(one, lambda row: row.operation == "STARTING")
    world.converges(one, Phase.RUNNING)
    assert world.container(one).container_id != was
    for seconds, phase in ((61, Phase.STANDBY), (121, Phase.ARCHIVED)):
        world.settles(one, Phase(world.row(one).phase))
        unused(world.row(one), seconds=seconds)
        assert resting.rest_idle_workspaces(now=clock.now(), limit=10).changed == 1
        world.settles(one, phase)
    assert next_actor(world.row(one)) is Actor.NOBODY
    (archive,) = selectors.archives_of(world.row(one), limit=5)
    assert (archive.state, archive.pk in world.store.objects) == ("VERIFIED", True)
    services.wake_workspace(workspace_id=one, actor=ME)
    world.settles(one, Phase.RUNNING)
    assert world.home(one) == {"a": b"mine"}
    services.delete_workspace(workspace_id=one, actor=ME)
    assert next_actor(world.settles(one, Phase.DELETED)) is Actor.PURGE
    services.undelete_workspace(workspace_id=one, actor=ME)
    world.settles(one, Phase.STANDBY)
    assert world.home(one) == {"a": b"mine"}
    services.delete_workspace(workspace_id=one, actor=ME)
    world.settles(one, Phase.DELETED)
    written(world.row(one), Writer.API, delete_requested_at=clock.now() - timedelta(days=7))
    assert purging.purge_workspaces(now=clock.now(), limit=10).changed == 1
    assert selectors.workspace_of(None, one) is None
    world.turn()
    assert world.row(one).purged_at is not None


@pytest.mark.contract("WSP-07", "WSP-09")
def test_wsp_09_an_archive_that_was_set_aside_is_an_error_until_it_is_read_back(world: World) -> None:
    one = a_workspace(world.tenant).pk
    world.converges(one, Phase.RUNNING)
    world.writes(one, "a", b"mine")
    services.change_workspace(workspace_id=one, actor=ME, wanted={"desired_state": DesiredState.ARCHIVED.value})
    key = str(world.settles(one, Phase.ARCHIVED).archive_key)
    assert archives.quarantine_archive(key)
    assert transitions.doubt_workspace(one)
    services.wake_workspace(workspace_id=one, actor=ME)
    row = world.until(one, lambda row: row.phase == Phase.ERROR)
    assert world.seen(one).archive.reason == "ArchiveCorrupted"
    assert (next_actor(row), services.error_reason(row)) == (Actor.YOU, "ArchiveAccessError")
    services.recover_workspace(workspace_id=one, actor=ME, source=f"archive:{key}")
    assert next_actor(world.row(one)) is Actor.RECONCILER
    world.converges(one, Phase.RUNNING)
    assert world.home(one) == {"a": b"mine"}


@pytest.mark.contract("WSP-04", "WSP-05")
def test_wsp_05_a_look_beside_a_begin_or_an_end_delays_neither_by_a_lease(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hint wakes both loops: the monitor writes between what the reconciler reads and what it writes."""
    one = a_workspace(world.tenant, desired_state=DesiredState.STANDBY).pk
    world.settles(one, Phase.STANDBY)
    services.wake_workspace(workspace_id=one, actor=ME)

    def looked_at_beside(name: str) -> None:
        plain = getattr(transitions, name)

        def raced(*arguments: Any, **named: Any) -> Any:
            monkeypatch.setattr(transitions, name, plain)
            seen = world.row(one)
            written(seen, Writer.MONITOR, observed_at=transitions.database_now())
            return plain(*arguments, **named)

        monkeypatch.setattr(transitions, name, raced)

    looked_at_beside("begin_operation")
    world.act()
    assert world.row(one).operation == "STARTING"
    world.look()
    looked_at_beside("complete_operation")
    world.act()
    assert world.row(one).operation == "STARTING"
    world.act()
    row = world.row(one)
    assert (row.operation, row.phase) == ("NONE", "RUNNING")
