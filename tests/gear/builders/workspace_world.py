"""A tenant's workspaces over a driver and a bucket in memory, both loops turned by hand, and time that a test moves."""

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pytest
from django.db import connection
from django.db.models import F

from dpp_project import uuid7
from ops.workspaces import naming
from ops.workspaces.conditions import Conditions
from ops.workspaces.drivers.base import Label, SeenContainer
from ops.workspaces.host.monitor import LookReport, Monitor
from ops.workspaces.host.reconciler import Reconciler
from ops.workspaces.models import Workspace, WorkspaceArchive, WorkspaceEvent, WorkspaceVolume
from ops.workspaces.rows import driver_rows, volumes
from ops.workspaces.rows.writing import writing_as
from ops.workspaces.states import DesiredState, Operation, Phase, VolumeState, Writer
from tenants.models import Tenant
from tests.gear.builders.recovery import Died
from tests.gear.builders.tenants import a_tenant
from tests.gear.faults.strikes import EFFECTS, LOOKS, Strike, Struck
from tests.gear.reference.memory_driver import MemoryDriver
from tests.gear.reference.memory_store import MemoryStore

DRIVER_ID: Final = "here"
TURNS: Final = 80
CONTENT: Final = {"a": b"first"}
"""What `running` and `archived` leave in a home."""


class World:
    """`turn` is one pass of each loop; a dead reconciler's next pass is another process's."""

    def __init__(self, tenant: Tenant, *, driver_id: str = DRIVER_ID) -> None:
        self.tenant = tenant
        self.driver_id = driver_id
        self.driver = MemoryDriver()
        self.store = MemoryStore()
        self.strike = Strike()
        driver_rows.register_driver(driver_id, self.driver)
        self.monitor = Monitor(self.driver, self.store, driver_id=driver_id)
        self.reconciler = self.a_reconciler()
        self.deaths = 0

    def a_reconciler(self) -> Reconciler:
        return Reconciler(
            Struck(self.driver, self.strike),
            Struck(self.store, self.strike),
            driver_id=self.driver_id,
            start=lambda action: action(),
        )

    def workspace(self, *, desired: DesiredState = DesiredState.RUNNING, **columns: Any) -> uuid.UUID:
        workspace_id = uuid7.new_uuid7()
        Workspace.objects.create(
            workspace_id=workspace_id,
            tenant=self.tenant,
            name=f"w-{workspace_id}",
            desired_state=desired,
            **columns,
        )
        return workspace_id

    def standing(self, count: int) -> list[uuid.UUID]:
        """Workspaces with a home each, as if they had been there for long; looked at."""
        op_id = uuid.uuid4()
        rows = [
            Workspace(
                workspace_id=(one := uuid7.new_uuid7()),
                tenant=self.tenant,
                name=f"w-{one}",
                desired_state=DesiredState.STANDBY,
                driver_id=self.driver_id,
                home_ctx={
                    "volume": naming.volume_name(one, op_id=op_id, attempt=1),
                    "epoch": 1,
                    "restore_marker": None,
                },
            )
            for _ in range(count)
        ]
        Workspace.objects.bulk_create(rows)
        for row in rows:
            self.driver.ensure_volume(row.home_ctx["volume"], Label(str(row.pk), str(op_id), 1))
        WorkspaceVolume.objects.bulk_create(
            WorkspaceVolume(
                volume_name=row.home_ctx["volume"],
                workspace_id=row.pk,
                driver_id=self.driver_id,
                op_id=op_id,
                attempt=1,
                epoch=1,
                state=VolumeState.LIVE,
            )
            for row in rows
        )
        self.look()
        return [row.pk for row in rows]

    # Time and turns.

    def look(self) -> LookReport:
        return self.monitor.run_once()

    def act(self) -> None:
        with suppress(Died):
            self.reconciler.run_once()
            return
        self.deaths += 1

    def turn(self) -> None:
        self.look()
        self.act()

    def until(self, workspace_id: uuid.UUID, wanted: Callable[[Workspace], bool], *, turns: int = TURNS) -> Workspace:
        """Turns and time, as much as it takes."""
        for _ in range(turns):
            self.turn()
            row = self.row(workspace_id)
            if wanted(row):
                return row
            self.time_passes(seconds=2)
            if not self._may_go_on():
                self.time_passes(seconds=400)
        row = self.row(workspace_id)
        raise AssertionError(f"not within {turns} turns: {row.phase} {row.operation} {row.op_step} {row.error_info}")

    def converges(self, workspace_id: uuid.UUID, phase: Phase, *, turns: int = TURNS) -> Workspace:
        """It is there, and nothing is under way."""
        return self.until(workspace_id, lambda row: row.phase == phase and row.operation == Operation.NONE, turns=turns)

    def settles(self, workspace_id: uuid.UUID, phase: Phase) -> Workspace:
        """It is there, and is there still after looks at all there is: nothing more comes of it."""
        for _ in range(TURNS):
            self.converges(workspace_id, phase)
            self.time_passes(seconds=40)
            self.turn()
            rev = self.row(workspace_id).rev
            self.turn()
            row = self.row(workspace_id)
            if row.rev == rev and row.phase == phase and row.operation == Operation.NONE:
                return row
        raise AssertionError(f"it does not settle: {self.row(workspace_id).error_info}")

    def comes_to(self, workspace_id: uuid.UUID, desired: DesiredState) -> Workspace:
        self.wish(workspace_id, desired)
        return self.converges(workspace_id, Phase(desired.value))

    def _may_go_on(self) -> bool:
        """Without waiting for a lease or a pause."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT NOT EXISTS (SELECT 1 FROM workspaces WHERE op_lease_until > statement_timestamp()"
                " OR next_reconcile_at > statement_timestamp())"
            )
            return bool(cursor.fetchone()[0])

    def time_passes(self, *, seconds: float) -> None:
        """Everything that has a time grows older by it."""
        with writing_as(Writer.RECONCILER), connection.cursor() as cursor:
            cursor.execute(
                "UPDATE workspaces SET op_lease_until = op_lease_until - make_interval(secs => %(by)s),"
                " op_started_at = op_started_at - make_interval(secs => %(by)s),"
                " next_reconcile_at = next_reconcile_at - make_interval(secs => %(by)s)"
                " WHERE operation <> 'NONE' OR next_reconcile_at IS NOT NULL",
                {"by": seconds},
            )
        with writing_as(Writer.MONITOR), connection.cursor() as cursor:
            cursor.execute(
                "UPDATE workspaces SET observed_at = observed_at - make_interval(secs => %s)"
                " WHERE observed_at IS NOT NULL",
                [seconds],
            )

    # What the API does.

    def wish(self, workspace_id: uuid.UUID, desired: DesiredState, *, discard: bool = False) -> None:
        is_deletion = desired is DesiredState.DELETED
        self.api(
            workspace_id,
            desired_state=desired,
            discard=discard,
            delete_requested_at=Workspace.objects.get(pk=workspace_id).created_at if is_deletion else None,
        )

    def recover(self, workspace_id: uuid.UUID, way: str) -> None:
        self.api(workspace_id, recover_generation=F("recover_generation") + 1, recover_from=way)

    def api(self, workspace_id: uuid.UUID, **columns: Any) -> None:
        with writing_as(Writer.API):
            Workspace.objects.filter(pk=workspace_id).update(generation=F("generation") + 1, **columns)

    # What there is.

    def row(self, workspace_id: uuid.UUID) -> Workspace:
        return Workspace.objects.get(pk=workspace_id)

    def seen(self, workspace_id: uuid.UUID) -> Conditions:
        return Conditions.stored(self.row(workspace_id).conditions, kind=self.driver.kind)

    def container(self, workspace_id: uuid.UUID) -> SeenContainer:
        found = self.driver.look_container(naming.container_name(workspace_id))
        assert found is not None, "there is no container"
        return found

    def writes(self, workspace_id: uuid.UUID, name: str, content: bytes) -> None:
        """As the tenant, from inside."""
        self.driver.put_file(self.container(workspace_id).container_id, name, content)

    def home(self, workspace_id: uuid.UUID) -> dict[str, bytes]:
        found = volumes.live_volume(workspace_id)
        assert found is not None, "there is no home"
        return self.driver.volumes[found.volume_name].files

    def nothing_is_unaccounted(self) -> None:
        """All that is at the driver and in the bucket has a row that says what it is for; homes are where rows say."""
        rows = dict(WorkspaceVolume.objects.values_list("volume_name", "state"))
        assert set(self.driver.volumes) <= set(rows)
        at_rest = WorkspaceVolume.objects.filter(workspace__operation=Operation.NONE)
        assert not at_rest.filter(state=VolumeState.FILLING).exists(), "nobody fills it any more"
        left_over = [name for name in self.driver.volumes if rows[name] in volumes.DEAD]
        assert left_over == [], "dead volumes that nobody has deleted"
        there = {name for name, state in rows.items() if state == VolumeState.LIVE}
        assert there <= set(self.driver.volumes), "a home that our rows call live is gone"
        assert set(self.store.objects) <= set(WorkspaceArchive.objects.values_list("archive_key", flat=True))
        for container in self.driver.containers.values():
            assert container.running, f"left over: {container}"
            assert container.volume in there, f"it runs on no home: {container}"
        for row in Workspace.objects.exclude(archive_key=None):
            assert row.archive_key in self.store.objects, "the archive that the row names is gone"


def running(world: World) -> uuid.UUID:
    one = world.workspace()
    world.converges(one, Phase.RUNNING)
    world.writes(one, "a", b"first")
    return one


def archived(world: World) -> uuid.UUID:
    one = running(world)
    world.comes_to(one, DesiredState.ARCHIVED)
    return one


def watched(world: World) -> list[str]:
    """Each call of the reconciler's to driver and bucket, from now on."""
    world.strike.names = EFFECTS | LOOKS
    world.strike.calls.clear()
    return world.strike.calls


def began(workspace_id: uuid.UUID, operation: Operation) -> int:
    lines = WorkspaceEvent.objects.filter(workspace=workspace_id, kind="OperationBegun")
    return lines.filter(detail__operation=operation).count()


@pytest.fixture
def world(db: None) -> World:
    return World(a_tenant())
