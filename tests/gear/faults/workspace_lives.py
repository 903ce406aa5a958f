"""A workspace's whole life over a memory driver, with one fault at one of its effects, and what must hold all along."""

from contextlib import suppress
from typing import Final

from ops.workspaces.drivers.base import DriverError
from ops.workspaces.host import sweeping
from ops.workspaces.models import Workspace, WorkspaceVolume
from ops.workspaces.rows.transitions import ClaimLost
from ops.workspaces.states import DesiredState, Phase, VolumeState
from tests.gear.builders.workspace_world import World
from tests.gear.faults.strikes import Fault, Strike

LATE_AFTER: Final = (1, 3, None)
"""So many effects of its successors later; None: when all has come to rest."""


class Life:
    """`strike` numbers the effects; a late one lands as far behind the next ones as `late_after` says."""

    def __init__(self, world: World, strike: Strike, *, late_after: int | None = None) -> None:
        self.world = world
        self.strike = strike
        self._late_after = late_after
        self._since_struck = 0
        strike.before = self._count
        world.strike = strike
        world.reconciler = world.a_reconciler()
        self.one = world.workspace()
        self.expected: dict[str, bytes] = {}

    def _count(self, _name: str) -> None:
        if self.strike.late is not None and self._late_after is not None:
            self._since_struck += 1
            if self._since_struck >= self._late_after:
                self._lands()

    def _lands(self) -> None:
        late, self.strike.late = self.strike.late, None
        if late is not None:
            with suppress(DriverError, ClaimLost):
                late()

    def run(self) -> None:
        """Up, changed, fallen, archived, back, asleep, archived, deleted, undeleted, deleted."""
        world, one = self.world, self.one
        self._comes_to(DesiredState.RUNNING)
        self._writes("a")
        world.api(one, spec={"env": {"STAGE": "next"}})
        self._comes_to(DesiredState.RUNNING)
        world.driver.exits(world.container(one).container_id)
        self._comes_to(DesiredState.RUNNING)
        self._writes("b")
        self._comes_to(DesiredState.ARCHIVED)
        self._comes_to(DesiredState.RUNNING)
        self._writes("a")
        self._comes_to(DesiredState.STANDBY)
        self._comes_to(DesiredState.ARCHIVED)
        self._comes_to(DesiredState.DELETED)
        self._comes_to(DesiredState.RUNNING)
        self._writes("c")
        self._comes_to(DesiredState.DELETED)
        self._comes_to(DesiredState.STANDBY)
        assert world.home(one) == self.expected

    def _writes(self, name: str) -> None:
        content = f"{name} {len(self.strike.calls)}".encode()
        self.world.writes(self.one, name, content)
        self.expected[name] = content

    def _comes_to(self, desired: DesiredState) -> None:
        world = self.world
        if world.row(self.one).desired_state != desired:
            world.wish(self.one, desired)
        world.settles(self.one, Phase(desired.value))
        if self.strike.late is not None:
            self._lands()
            world.settles(self.one, Phase(desired.value))
        sweeping.sweep_once(world.driver, driver_id=world.driver_id)
        world.nothing_is_unaccounted()
        assert Workspace.objects.get(pk=self.one).error_count <= 1
        if desired in (DesiredState.RUNNING, DesiredState.STANDBY):
            assert world.home(self.one) == self.expected
        else:
            assert not WorkspaceVolume.objects.filter(workspace=self.one, state=VolumeState.LIVE).exists()


def faults_at(at: int) -> list[tuple[int, Fault, int | None]]:
    """Everything that may go wrong with one effect."""
    plain = [(at, fault, None) for fault in Fault if fault is not Fault.LATE]
    return plain + [(at, Fault.LATE, after) for after in LATE_AFTER]
