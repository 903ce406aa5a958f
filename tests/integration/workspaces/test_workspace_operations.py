"""Operations that are overtaken and taken back, and what is never done twice."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from dpp_project import clock
from dpp_project.clock import FixedClock
from ops.workspaces.drivers.base import SeenContainer
from ops.workspaces.host import reconciler as reconciler_module
from ops.workspaces.host import sweeping
from ops.workspaces.host.reconciler import Reconciler
from ops.workspaces.models import Workspace, WorkspaceArchive, WorkspaceEvent, WorkspaceVolume
from ops.workspaces.rows import archives, transitions, volumes
from ops.workspaces.rows.writing import writing_as
from ops.workspaces.states import ArchiveState, DesiredState, Operation, Phase, Writer
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.workspace_world import CONTENT, World, archived, began, running, watched
from tests.proving import proofs

EVERY = pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
"""So many calls apart: all of them are for the proofs."""


@pytest.mark.contract("WSP-05")
def test_wsp_05_what_was_adopted_is_to_be_looked_at_at_once(world: World) -> None:
    told: list[object] = []
    reconciler = Reconciler(
        world.driver, world.store, driver_id=world.driver_id, start=lambda action: action(), to_look_at=told.append
    )
    new = world.workspace()
    reconciler.run_once()
    assert told == [new]
    reconciler.run_once()
    assert told == [new], "only then"


@pytest.mark.contract("WSP-14")
def test_wsp_14_one_tenant_s_homes_take_not_all_places_of_the_bucket(world: World) -> None:
    """They may last for hours, and another's restore would wait for them."""
    greedy = world.standing(5)
    world.tenant = a_tenant()
    beside = world.standing(1)
    with writing_as(Writer.API):
        Workspace.objects.update(desired_state=DesiredState.ARCHIVED)
    lasting: list[object] = []
    slow = Reconciler(world.driver, world.store, driver_id=world.driver_id, start=lasting.append)
    for _ in range(2):
        world.look()
        slow.run_once()
    begun = set(Workspace.objects.filter(operation=Operation.ARCHIVING).values_list("pk", flat=True))
    assert len(lasting) == len(begun) == 3
    assert begun > set(beside)
    assert len(begun & set(greedy)) == 2


@pytest.mark.contract("WSP-14")
def test_wsp_14_one_tenant_s_starts_take_not_all_threads_of_a_host(world: World) -> None:
    """They may last, where it is the tenant's to say how soon they end."""
    greedy = world.standing(9)
    world.tenant = a_tenant()
    beside = world.standing(1)
    with writing_as(Writer.API):
        Workspace.objects.update(desired_state=DesiredState.RUNNING)
    lasting: list[object] = []
    slow = Reconciler(world.driver, world.store, driver_id=world.driver_id, start=lasting.append)
    for _ in range(2):
        world.look()
        slow.run_once()
    begun = set(Workspace.objects.filter(operation=Operation.STARTING).values_list("pk", flat=True))
    assert (len(lasting), begun > set(beside), len(begun & set(greedy))) == (5, True, 4)


@pytest.mark.contract("WSP-14")
def test_wsp_14_rows_that_have_to_wait_hide_none_behind_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a batch of homes to archive, some new ones that never will be, and another's start."""
    monkeypatch.setattr(reconciler_module, "BATCH", 3)
    world.standing(9)
    world.tenant = a_tenant()
    (beside,) = world.standing(1)
    for _ in range(3):
        world.workspace(desired=DesiredState.ARCHIVED, driver_id=world.driver_id)
    with writing_as(Writer.API):
        Workspace.objects.update(desired_state=DesiredState.ARCHIVED)
        Workspace.objects.filter(pk=beside).update(desired_state=DesiredState.RUNNING)
    with writing_as(Writer.RECONCILER):  # it failed a while ago: whatever waits for a place comes before it
        Workspace.objects.filter(pk=beside).update(next_reconcile_at=Now() - timedelta(seconds=1))
    lasting: list[object] = []
    slow = Reconciler(world.driver, world.store, driver_id=world.driver_id, start=lasting.append)
    world.look()
    slow.run_once()
    begun = list(Workspace.objects.exclude(operation="NONE").order_by("operation").values_list("operation", flat=True))
    assert (begun, len(lasting)) == (["ARCHIVING", "ARCHIVING", "STARTING"], 3)


@pytest.mark.contract("WSP-14")
def test_wsp_14_a_bucket_that_is_away_takes_not_all_threads_of_a_host(world: World) -> None:
    """What it was asked for waits for its timeouts, again and again, and a start needs no bucket."""
    world.standing(12)
    world.tenant = a_tenant()
    (beside,) = world.standing(1)
    with writing_as(Writer.API):
        Workspace.objects.update(desired_state=DesiredState.ARCHIVED)
        Workspace.objects.filter(pk=beside).update(desired_state=DesiredState.RUNNING)
    world.store.is_away = True
    world.until(beside, lambda row: row.phase == Phase.RUNNING)
    for _ in range(6):
        world.turn()
    put_off = Workspace.objects.filter(operation=Operation.ARCHIVING, reconcile_failure_count__gt=0)
    assert put_off.count() == 12
    world.wish(beside, DesiredState.STANDBY)
    world.time_passes(seconds=400)
    lasting: list[object] = []
    slow = Reconciler(world.driver, world.store, driver_id=world.driver_id, start=lasting.append)
    world.look()
    report = slow.run_once()
    assert (report.went_on, report.began, world.row(beside).operation) == (2, 1, "STOPPING")
    assert slow.run_once().went_on == 0, "its tenant has as many as are left for the others"


@pytest.mark.contract("WSP-14")
def test_wsp_14_a_row_that_cannot_be_considered_is_that_row_s_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison, beside = sorted(world.standing(2))
    with writing_as(Writer.API):
        Workspace.objects.update(desired_state=DesiredState.RUNNING)
    situation = reconciler_module.workspace_situation

    def fails(row: Workspace, seen: Any) -> Any:
        if row.pk == poison:
            raise ValueError("what it says cannot be read")
        return situation(row, seen)

    world.look()
    with monkeypatch.context() as patch:
        patch.setattr(reconciler_module, "workspace_situation", fails)
        assert world.reconciler.run_once().began == 1
    assert (world.row(poison).operation, world.row(beside).operation) == ("NONE", "STARTING")
    world.converges(poison, Phase.RUNNING)


@pytest.mark.contract("WSP-14")
def test_wsp_14_a_step_of_a_later_release_is_that_row_s_alone(world: World) -> None:
    """It was rolled back: the row waits for the next one, and is not given up."""
    unknown, beside = world.standing(2)
    for one in (unknown, beside):
        world.wish(one, DesiredState.RUNNING)
        world.look()
        assert transitions.begin_operation(world.row(one), Operation.STARTING) is not None
    with writing_as(Writer.RECONCILER):
        Workspace.objects.filter(pk=unknown).update(op_step="of a later release")
    world.time_passes(seconds=61)
    world.look()
    assert world.reconciler.run_once().went_on == 1
    assert (world.row(unknown).op_step, world.row(unknown).op_attempt) == ("of a later release", 1)
    world.converges(beside, Phase.RUNNING)


@pytest.mark.contract("WSP-14")
def test_wsp_14_a_thread_that_cannot_be_started_keeps_no_place(world: World) -> None:
    (one,) = world.standing(1)
    world.wish(one, DesiredState.RUNNING)

    def refuses(_action: object) -> None:
        raise RuntimeError("can't start new thread")

    refused = Reconciler(world.driver, world.store, driver_id=world.driver_id, start=refuses)
    world.look()
    assert refused.run_once().began == 0
    assert (refused.is_at_work, world.row(one).operation) == (False, "STARTING")
    world.time_passes(seconds=61)
    world.converges(one, Phase.RUNNING)


@pytest.mark.contract("WSP-09")
def test_wsp_09_a_recovery_that_reads_an_archive_keeps_no_pass_waiting(world: World) -> None:
    """It may read for longer than a pass that hangs is borne with."""
    one, (beside,) = archived(world), world.standing(1)
    stored = world.store.objects.pop(key := str(world.row(one).archive_key))
    assert transitions.doubt_workspace(one)
    world.until(one, lambda row: row.phase == Phase.ERROR)
    world.store.objects[key] = stored
    world.comes_to(beside, DesiredState.RUNNING)
    world.recover(one, "recheck")
    lasting: list[Any] = []
    slow = Reconciler(world.driver, world.store, driver_id=world.driver_id, start=lasting.append)
    world.wish(beside, DesiredState.STANDBY)
    for _ in range(3):
        world.look()
        slow.run_once()
    assert (len(lasting), world.row(one).recovered_generation) == (2, 0), "the recovery, once, and the other's stop"
    assert (slow.is_at_work, world.row(beside).operation) == (True, "STOPPING")
    for act in lasting:
        act()
    assert (slow.is_at_work, world.row(one).recovered_generation) == (False, 1)
    world.comes_to(one, DesiredState.RUNNING)
    assert world.home(one) == CONTENT


@pytest.mark.contract("WSP-04")
def test_wsp_04_loops_that_begin_anew_write_nothing(world: World) -> None:
    world.standing(20)
    one = running(world)
    world.settles(one, Phase.RUNNING)
    effects, calls = world.driver.effects, watched(world)
    rows = list(Workspace.objects.order_by("pk").values_list("rev", "op_attempt"))
    world.reconciler = world.a_reconciler()
    for _ in range(3):
        world.turn()
        world.time_passes(seconds=60)
    assert (world.driver.effects, calls) == (effects, [])
    assert list(Workspace.objects.order_by("pk").values_list("rev", "op_attempt")) == rows


@EVERY
@pytest.mark.contract("WSP-05")
def test_wsp_05_a_wish_that_changes_at_any_step_of_an_archiving_keeps_the_home(world: World, every: int) -> None:
    one, at = running(world), 0
    met: list[str] = []
    ways: list[str] = []
    while at < 40:
        calls = watched(world)
        before = WorkspaceVolume.objects.count()

        def flip(_name: str, at: int = at, calls: list[str] = calls) -> None:
            if len(calls) == at + 1:
                met.append(world.row(one).operation)
                world.wish(one, DesiredState.RUNNING)

        world.strike.before = flip
        world.wish(one, DesiredState.ARCHIVED)
        for _ in range(14):
            world.turn()
            if world.row(one).desired_state == DesiredState.RUNNING:
                break
        world.strike.before = None
        if world.row(one).desired_state == DesiredState.ARCHIVED:
            break  # there are no more steps
        world.settles(one, Phase.RUNNING)
        assert world.home(one) == CONTENT
        sweeping.sweep_once(world.driver, driver_id=world.driver_id)
        world.nothing_is_unaccounted()
        if met.pop() == Operation.ARCHIVING:
            ways.append("restored" if WorkspaceVolume.objects.count() > before else "abandoned")
        at += every
    proofs.report(cases=len(ways))
    assert {"abandoned", "restored"} == set(ways)
    assert ways == sorted(ways), "abandoned until the home is doomed, and restored after that"


@EVERY
@pytest.mark.contract("WSP-05")
@pytest.mark.parametrize(
    ("first", "then"),
    [(DesiredState.RUNNING, DesiredState.ARCHIVED), (DesiredState.ARCHIVED, DesiredState.RUNNING)],
)
def test_wsp_05_a_rival_that_takes_over_between_any_two_calls_wins_alone(
    world: World, first: DesiredState, then: DesiredState, every: int
) -> None:
    one = running(world)
    if first is DesiredState.ARCHIVED:
        world.comes_to(one, first)
    calls = watched(world)
    world.comes_to(one, then)
    places = range(0, len(calls), every)
    for at in places:
        world.comes_to(one, first)
        calls = watched(world)
        rival = world.a_reconciler()

        def overtake(_name: str, at: int = at, calls: list[str] = calls, rival: Any = rival) -> None:
            if len(calls) == at + 1:
                world.time_passes(seconds=61)
                for _ in range(2):
                    rival.run_once()
                    world.look()

        world.strike.before = overtake
        world.comes_to(one, then)
        world.strike.before = None
        world.settles(one, Phase(then.value))
        sweeping.sweep_once(world.driver, driver_id=world.driver_id)
        world.nothing_is_unaccounted()
        world.comes_to(one, DesiredState.RUNNING)
        assert world.home(one) == CONTENT
        assert world.row(one).error_count == 0
    assert WorkspaceEvent.objects.filter(workspace=one, kind="OperationTakenOver").exists()
    proofs.report(cases=len(places))


@pytest.mark.contract("WSP-05")
def test_wsp_05_a_loser_of_a_claim_does_nothing_more(world: World) -> None:
    one = archived(world)
    world.wish(one, DesiredState.RUNNING)
    world.look()
    seen = world.row(one)
    claim = transitions.begin_operation(seen, Operation.RESTORING)
    assert claim is not None
    assert transitions.begin_operation(seen, Operation.RESTORING) is None
    assert transitions.take_operations(world.driver_id, only=[one]) == []  # its lease is held
    world.time_passes(seconds=61)
    (successor,) = transitions.take_operations(world.driver_id, only=[one])
    assert successor.attempt == claim.attempt + 1
    before = Workspace.objects.filter(pk=one).values().get()
    with pytest.raises(transitions.ClaimLost):
        transitions.hold_operation(claim)
    with pytest.raises(transitions.ClaimLost):
        transitions.advance_operation(claim, successor.step)
    assert transitions.complete_operation(claim, seen=world.row(one)) is False
    transitions.fail_operation(claim, reason="Late", message="")
    transitions.put_off_operation(claim, reason="Late", message="")
    transitions.park_operation(claim)
    assert Workspace.objects.filter(pk=one).values().get() == before


@pytest.mark.contract("WSP-05")
def test_wsp_05_an_end_needs_a_look_after_the_last_effect(world: World) -> None:
    one = running(world)
    world.wish(one, DesiredState.STANDBY)
    world.look()
    world.act()
    row = world.row(one)
    assert (row.operation, row.op_step, row.observed_rev < row.rev) == ("STOPPING", "observe", True)
    for _ in range(3):
        world.time_passes(seconds=61)
        world.act()  # it stopped it, and knows so: no look, no end
    assert world.row(one).operation == "STOPPING"
    world.look()
    world.act()
    assert world.row(one).operation == "NONE"


@pytest.mark.contract("WSP-05")
def test_wsp_05_a_look_before_an_effect_ends_nothing(world: World) -> None:
    one = running(world)
    watched(world)
    world.wish(one, DesiredState.STANDBY)
    world.look()

    def looks(_name: str) -> None:
        world.look()

    world.strike.before = looks  # behind the beginning, before the effect
    world.act()
    world.act()
    row = world.row(one)
    assert (row.operation, row.op_step, row.error_info, row.observed_rev < row.rev) == (
        "STOPPING",
        "observe",
        None,
        True,
    )
    world.comes_to(one, DesiredState.ARCHIVED)
    world.comes_to(one, DesiredState.RUNNING)
    assert (world.home(one), world.row(one).error_count) == (CONTENT, 0)


@pytest.mark.contract("WSP-07")
def test_wsp_07_what_has_ended_is_archived_as_it_is(world: World) -> None:
    one = running(world)
    world.wish(one, DesiredState.ARCHIVED)
    world.driver.exits(world.container(one).container_id)
    world.converges(one, Phase.ARCHIVED)
    assert (began(one, Operation.STOPPING), began(one, Operation.ARCHIVING), world.driver.containers) == (0, 1, {})


@pytest.mark.contract("WSP-05")
def test_wsp_05_a_clock_an_hour_off_takes_nothing_over_and_ends_no_pause(world: World) -> None:
    one = running(world)
    world.wish(one, DesiredState.STANDBY)
    world.look()
    claim = transitions.begin_operation(world.row(one), Operation.STOPPING)
    assert claim is not None
    with clock.use_clock(FixedClock(clock.now().replace(year=2030))):
        assert transitions.take_operations(world.driver_id, only=[one]) == []
    with writing_as(Writer.RECONCILER):  # as a database's clock that ran an hour ahead has left it
        connection.cursor().execute("UPDATE workspaces SET op_lease_until = op_lease_until + interval '1 hour'")
    assert len(transitions.take_operations(world.driver_id, only=[one])) == 1


@pytest.mark.contract("WSP-07")
def test_wsp_07_the_archive_is_kept_from_collection_at_each_step_of_a_restore(world: World) -> None:
    one = archived(world)
    key, tried = str(world.row(one).archive_key), []

    def collect(name: str) -> None:
        if world.row(one).operation == Operation.RESTORING:
            tried.append((name, archives.begin_collecting(WorkspaceArchive.objects.all(), key)))

    watched(world)
    world.strike.before = collect
    world.comes_to(one, DesiredState.STANDBY)
    assert [name for name, _ in tried] == ["list_archives", "list", "free_bytes", "ensure_volume", "import_"]
    assert not any(won for _, won in tried)
    assert WorkspaceArchive.objects.get(pk=key).pinned_by is None


@pytest.mark.contract("WSP-07")
def test_wsp_07_a_home_in_use_at_its_deletion_is_archived_again(world: World) -> None:
    one = running(world)

    def mount(name: str) -> None:
        """A person's container takes the home at the last moment, and writes."""
        if name == "delete_volume":
            home = str(world.row(one).home_ctx["volume"])
            world.driver.containers["theirs"] = SeenContainer("theirs", "theirs", None, home, running=True)
            world.driver.put_file("theirs", "late", b"written")

    watched(world)
    world.strike.before = mount
    world.wish(one, DesiredState.ARCHIVED)
    row = world.until(one, lambda row: (row.error_info or {}).get("reason") == "VolumeInUse")
    first = row.archive_key
    world.strike.before = None
    for _ in range(3):
        world.turn()
    del world.driver.containers["theirs"]
    assert sweeping.sweep_once(world.driver, driver_id=world.driver_id).deleted == []
    world.settles(one, Phase.ARCHIVED)
    assert world.row(one).archive_key != first
    world.comes_to(one, DesiredState.RUNNING)
    assert world.home(one) == CONTENT | {"late": b"written"}
    states = dict(WorkspaceArchive.objects.values_list("archive_key", "state"))
    assert states[str(first)] == ArchiveState.SUPERSEDED


@pytest.mark.contract("WSP-07")
def test_wsp_07_a_name_that_was_not_held_while_it_was_archived_dooms_nothing(world: World) -> None:
    one = running(world)

    def slip(name: str) -> None:
        if name == "verify":
            world.driver.containers.clear()  # a person removes the placeholder

    watched(world)
    world.strike.before = slip
    world.wish(one, DesiredState.ARCHIVED)
    row = world.until(one, lambda row: row.error_info is not None)
    assert row.error_info is not None
    assert (row.error_info["reason"], volumes.live_volume(one) is not None) == ("FenceBroken", True)
    world.strike.before = None
    world.converges(one, Phase.ARCHIVED)
    assert began(one, Operation.ARCHIVING) == 2


@pytest.mark.contract("WSP-07")
def test_wsp_07_no_start_without_the_marker_and_a_recheck_sets_it_anew(world: World) -> None:
    one = archived(world)
    world.comes_to(one, DesiredState.STANDBY)
    with writing_as(Writer.RECONCILER):
        Workspace.objects.filter(pk=one).update(home_ctx=world.row(one).home_ctx | {"restore_marker": None})
    world.wish(one, DesiredState.RUNNING)
    world.until(one, lambda row: row.phase == "ERROR")
    assert (world.seen(one).healthy.reason, world.driver.containers) == ("MarkerMissing", {})
    WorkspaceArchive.objects.update(state=ArchiveState.QUARANTINED)
    world.recover(one, "recheck")
    world.until(one, lambda row: row.recovered_generation == 1)
    assert world.row(one).phase == "ERROR"  # nothing verified says what it was filled from
    WorkspaceArchive.objects.update(state=ArchiveState.VERIFIED)
    world.recover(one, "recheck")
    world.converges(one, Phase.RUNNING)
    assert world.home(one) == CONTENT


@pytest.mark.contract("WSP-05")
def test_wsp_05_a_changed_spec_restarts_the_container_on_the_same_home(world: World) -> None:
    one = running(world)
    before = world.container(one)
    world.api(one, spec={"env": {"STAGE": "next"}})
    world.settles(one, Phase.RUNNING)
    after = world.container(one)
    assert (after.volume, after.spec_hash != before.spec_hash) == (before.volume, True)
    world.api(one, name="another")
    starts = began(one, Operation.STARTING)
    world.settles(one, Phase.RUNNING)
    assert (world.container(one), began(one, Operation.STARTING)) == (after, starts)
