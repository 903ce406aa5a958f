"""A random machine over two workspaces: their owner writes and changes its mind, verbs die, lose their answer, come
twice or late, services are away, time passes; and whenever a home stands it holds what was written last.

Real Postgres; driver and bucket in memory. A failure tells its seed; DPP_MACHINE_SEED=<n> replays it.
"""

import os
import random
from collections import Counter
from contextlib import suppress
from typing import ClassVar

import hypothesis
import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ops.workspaces.drivers.base import DriverError
from ops.workspaces.host import sweeping
from ops.workspaces.models import Workspace
from ops.workspaces.rows import volumes
from ops.workspaces.rows.transitions import ClaimLost
from ops.workspaces.states import DesiredState, VolumeState
from ops.workspaces.states import Phase as WorkspacePhase
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.workspace_world import World
from tests.gear.faults.strikes import Fault, Strike
from tests.proving import proofs

pytestmark = [pytest.mark.django_db, pytest.mark.contract("WSP-05", "WSP-07")]

which = st.integers(0, 1)
wishes = st.sampled_from(list(DesiredState))
seconds = st.sampled_from([1, 3, 31, 61, 400])


class WorkspaceMachine(RuleBasedStateMachine):
    met: ClassVar[Counter[str]] = Counter()

    @initialize()
    def begins(self) -> None:
        self.outer = transaction.atomic()
        self.outer.__enter__()
        self.world = World(a_tenant())
        self.ids = [self.world.workspace(), self.world.workspace(desired=DesiredState.STANDBY)]
        self.written: dict[object, dict[str, bytes]] = {one: {} for one in self.ids}
        self.late: list[Strike] = []
        self.count = 0
        self.met["machines"] += 1

    @rule(which=which, wish=wishes)
    def wishes(self, which: int, wish: DesiredState) -> None:
        if self.world.row(self.ids[which]).desired_state != wish:
            self.world.wish(self.ids[which], wish)
            self.met[f"wish {wish}"] += 1

    @rule(which=which)
    def writes(self, which: int) -> None:
        """The owner, wherever a container of its runs."""
        one, home = self.ids[which], volumes.live_volume(self.ids[which])
        for container in list(self.world.driver.containers.values()):
            if container.running and home is not None and container.volume == home.volume_name:
                self.count += 1
                content = str(self.count).encode()
                self.world.driver.put_file(container.container_id, "a", content)
                self.written[one]["a"] = content
                self.met["writes"] += 1

    @rule(turns=st.integers(1, 4))
    def turns(self, turns: int) -> None:
        for _ in range(turns):
            self.world.turn()

    @rule()
    def acts_without_a_look(self) -> None:
        self.world.act()

    @rule(seconds=seconds)
    def time_passes(self, seconds: int) -> None:
        self.world.time_passes(seconds=seconds)

    @rule(at=st.integers(0, 2), fault=st.sampled_from(list(Fault)))
    def is_struck(self, at: int, fault: Fault) -> None:
        strike = Strike(at=at, fault=fault)
        self.world.strike = strike
        self.world.reconciler = self.world.a_reconciler()
        for _ in range(5):
            self.world.turn()
            self.world.time_passes(seconds=3)
        if strike.struck is not None:
            self.met[f"{fault.value} at {strike.struck}"] += 1
        if strike.late is not None:
            self.late.append(strike)
        self.world.strike = Strike()
        self.world.reconciler = self.world.a_reconciler()

    @rule()
    def lands_late(self) -> None:
        if self.late:
            strike = self.late.pop(0)
            assert strike.late is not None
            with suppress(DriverError, ClaimLost):
                strike.late()
            self.met["landed late"] += 1

    @rule(which=which)
    def exits(self, which: int) -> None:
        for container in list(self.world.driver.containers.values()):
            if container.running and container.name.endswith(str(self.ids[which])):
                self.world.driver.exits(container.container_id)
                self.met["exits"] += 1

    @rule(which=st.sampled_from(["driver", "bucket"]))
    def is_away_for_a_turn(self, which: str) -> None:
        """The bucket alone to the reconciler's eyes is as good: the monitor's looks fail as well."""
        service = self.world.driver if which == "driver" else self.world.store
        service.is_away = True
        self.world.time_passes(seconds=31)
        self.world.turn()
        service.is_away = False

    @rule()
    def sweeps(self) -> None:
        sweeping.sweep_once(self.world.driver, driver_id=self.world.driver_id)

    @invariant()
    def a_home_holds_what_was_written_last(self) -> None:
        if not hasattr(self, "world"):
            return
        for one in self.ids:
            home = volumes.live_volume(one)
            if home is not None:
                assert home.volume_name in self.world.driver.volumes, "its home is gone"
                assert self.world.driver.volumes[home.volume_name].files == self.written[one]
        assert not Workspace.objects.filter(phase=WorkspacePhase.ERROR).exists()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            while self.late:
                self.lands_late()
            for one in self.ids:
                if self.world.row(one).desired_state != DesiredState.RUNNING:
                    self.world.wish(one, DesiredState.RUNNING)
            for one in self.ids:
                self.world.settles(one, WorkspacePhase.RUNNING)
                assert self.world.home(one) == self.written[one]
            self.sweeps()
            self.world.nothing_is_unaccounted()
        finally:
            transaction.set_rollback(True)
            self.outer.__exit__(None, None, None)


def lives(examples: int, steps: int, *, shrink: bool = True) -> Counter[str]:
    seed = int(os.environ.get("DPP_MACHINE_SEED") or random.SystemRandom().randrange(1 << 32))
    WorkspaceMachine.met.clear()
    try:
        run_state_machine_as_test(
            hypothesis.seed(seed)(WorkspaceMachine),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
                report_multiple_bugs=False,
            ),
        )
    except BaseException as error:
        error.add_note(f"DPP_MACHINE_SEED={seed}")
        raise
    met = Counter(WorkspaceMachine.met)
    assert met["machines"] >= examples
    proofs.report(cases=met["machines"], seed=seed, met=met)
    return met


def test_wsp_07_a_home_outlives_some_days() -> None:
    lives(3, 15)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_wsp_07_a_home_outlives_many_days() -> None:
    met = lives(150, 40)
    struck = {name for name in met if " at " in name}
    assert (len(struck) >= 10, met["landed late"] >= 3, met["writes"] >= 10) == (True, True, True), met


def test_the_machine_finds_a_home_that_is_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "DEAD", (*volumes.DEAD, VolumeState.LIVE))
    with pytest.raises(AssertionError, match=r"its home is gone|not within|nobody has deleted"):
        lives(10, 15, shrink=False)
