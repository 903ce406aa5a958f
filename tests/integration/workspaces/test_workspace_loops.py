"""The loops as the process `workspaces` runs them, hints and all, over the driver of processes and a real bucket."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis as redis_library
from django.db import connections

from ops.workspaces import hints
from ops.workspaces.host.listening import Listener
from ops.workspaces.models import WorkspaceEvent
from ops.workspaces.operations import work
from ops.workspaces.rows import driver_rows
from ops.workspaces.states import DesiredState, Operation, Phase
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.workspace_drivers import process_driver
from tests.gear.builders.workspace_loops import loops, shell
from tests.gear.builders.workspace_world import DRIVER_ID, World, archived
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.contract("WSP-05")
@pytest.mark.usefixtures("valkey", "aws")
def test_wsp_05_two_processes_of_loops_take_a_real_home_down_and_up() -> None:
    with process_driver() as driver:
        driver_rows.register_driver(DRIVER_ID, driver)
        world = World(a_tenant(), driver_id="nowhere")
        one = world.workspace()

        def comes_to(phase: Phase) -> None:
            world.wish(one, DesiredState(phase.value))
            hints.give_hint(one)
            wait_until(
                lambda: (row := world.row(one)).phase == phase and row.operation == "NONE", seconds=60, what=phase.value
            )

        with loops(driver, driver_id=DRIVER_ID):
            comes_to(Phase.RUNNING)
            shell(driver, one, "mkdir -p ~/a && echo first > ~/a/b && ln -s b ~/a/c && sync")
            comes_to(Phase.ARCHIVED)
            assert ([v for v in driver.list().volumes if v.label], driver.list().containers) == ([], ())
            comes_to(Phase.RUNNING)
            assert shell(driver, one, "cat ~/a/c; readlink ~/a/c") == "first\nb\n"
            comes_to(Phase.STANDBY)
        begun = WorkspaceEvent.objects.filter(workspace=one, kind="OperationBegun", detail__operation="STARTING")
        assert (begun.count(), world.row(one).error_count) == (2, 0)


@pytest.mark.contract("WSP-05")
def test_wsp_05_many_that_wake_it_at_once_make_one_start() -> None:
    world = World(a_tenant())
    (one,) = world.standing(1)
    world.wish(one, DesiredState.RUNNING)
    world.look()
    many = 8
    together = threading.Barrier(many)

    def wakes() -> None:
        reconciler = world.a_reconciler()
        together.wait()
        reconciler.run_once()
        connections.close_all()

    with ThreadPoolExecutor(many) as threads:
        for woken in [threads.submit(wakes) for _ in range(many)]:
            woken.result(30)
    world.converges(one, Phase.RUNNING)
    assert world.strike.calls.count("start") == 1
    lines = WorkspaceEvent.objects.filter(workspace=one, kind="OperationBegun")
    assert [line.detail["operation"] for line in lines] == [Operation.STARTING]


@pytest.mark.contract("WSP-05")
@pytest.mark.parametrize("verb", ["import_", "upload"])
def test_wsp_05_a_verb_that_ends_late_is_not_overtaken(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk may take what it was given for longer than a lease; each attempt would be overtaken by the next."""
    monkeypatch.setattr(work, "HOLD_SECONDS", 0.02)
    world = World(a_tenant())
    one = archived(world)
    if verb == "upload":
        world.comes_to(one, DesiredState.STANDBY)
    leases: list[Any] = []

    def lasts(name: str) -> None:
        if name == verb:
            leases.append(world.row(one).op_lease_until)
            wait_until(lambda: world.row(one).op_lease_until != leases[0], what="the lease to go on")
            leases.append(world.row(one).op_lease_until)

    world.strike.before = lasts
    world.comes_to(one, DesiredState.RUNNING if verb == "import_" else DesiredState.ARCHIVED)
    assert len(leases) == 2
    assert leases[1] > leases[0]
    assert "workspaces-lease" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.contract("WSP-04")
def test_wsp_04_a_hint_ends_the_wait(valkey: redis_library.Redis) -> None:
    stop, listener = threading.Event(), Listener()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(listener.wait, stop, seconds=60)
        wait_until(lambda: valkey.pubsub_numsub(hints.CHANNEL)[0][1] == 1, what="the loop to listen")
        hints.give_hint(uuid.uuid4())
        waiting.result(20)
    listener.close()
    assert not stop.is_set()


@pytest.mark.contract("WSP-04")
def test_wsp_04_without_redis_the_wait_is_as_long_as_it_would_have_been(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> redis_library.Redis:
        raise redis_library.ConnectionError("away")

    monkeypatch.setattr("dpp_project.stores.redis.redis_client", away)
    stop, listener = threading.Event(), Listener()
    asked: list[float] = []

    def waits(seconds: float) -> bool:
        asked.append(seconds)
        return False

    monkeypatch.setattr(stop, "wait", waits)
    listener.wait(stop, seconds=2)
    assert len(asked) == 2
    assert 1.5 < asked[-1] <= 2
