"""What is seen makes conditions, conditions make a phase, and a phase and a wish make the next operation."""

import itertools
from dataclasses import replace

import pytest

from ops.workspaces import conditions, planning
from ops.workspaces.conditions import (
    UNSEEN,
    Condition,
    ConditionReason,
    Conditions,
    Glimpse,
    condition_after_look,
    phase_of,
)
from ops.workspaces.drivers.base import Label, SeenContainer
from ops.workspaces.planning import Ending, Situation, plan_operation
from ops.workspaces.states import DesiredState, Operation, Phase

AT, LATER = "2026-03-01T12:00:00.000Z", "2026-03-01T12:00:05.000Z"
HOME = "ws-1-home"


def condition(status: bool, reason: str, **more: object) -> Condition:  # noqa: FBT001  as it is stored
    return Condition(status, reason, "", AT, **more)  # type: ignore[arg-type]


WELL = condition(True, ConditionReason.ALL_WELL)
VOLUME, NO_VOLUME = condition(True, ConditionReason.VOLUME_PROVISIONED), condition(False, ConditionReason.NO_VOLUME)
RUNS, NO_CONTAINER = condition(True, ConditionReason.CONTAINER_RUNNING), condition(False, ConditionReason.NO_CONTAINER)
ARCHIVE, NO_ARCHIVE = condition(True, ConditionReason.ARCHIVE_UPLOADED), condition(False, ConditionReason.NO_ARCHIVE)
ARCHIVED = Conditions(NO_VOLUME, NO_CONTAINER, ARCHIVE, WELL)
STANDBY = Conditions(VOLUME, NO_CONTAINER, NO_ARCHIVE, WELL)
RUNNING = Conditions(VOLUME, RUNS, NO_ARCHIVE, WELL)
PENDING = Conditions(NO_VOLUME, NO_CONTAINER, NO_ARCHIVE, WELL)


@pytest.mark.contract("WSP-01")
def test_wsp_01_the_transition_time_moves_with_the_status_alone() -> None:
    first = condition_after_look(UNSEEN, Glimpse(status=False, reason="NoVolume", message="none"), at=AT)
    assert first == Condition(False, "NoVolume", "none", AT)
    other = condition_after_look(first, Glimpse(status=False, reason="VolumeLost", message="gone"), at=LATER)
    assert (other.reason, other.last_transition_time) == ("VolumeLost", AT)
    moved = condition_after_look(other, Glimpse(status=True, reason="VolumeProvisioned", message="there"), at=LATER)
    assert (moved.status, moved.last_transition_time) == (True, LATER)


@pytest.mark.contract("WSP-01")
def test_wsp_01_a_look_that_failed_keeps_what_was_known_and_says_so() -> None:
    kept = condition_after_look(VOLUME, None, at=LATER)
    assert kept == replace(VOLUME, stale=True)
    assert kept.to_json()["stale"] is True
    again = condition_after_look(kept, Glimpse(status=True, reason=VOLUME.reason, message=""), at=LATER)
    assert again == VOLUME
    assert "stale" not in again.to_json()


@pytest.mark.contract("WSP-01")
def test_wsp_01_conditions_are_read_as_they_were_stored() -> None:
    found = Conditions(
        VOLUME, condition(False, ConditionReason.CONTAINER_EXITED, detail={"exit_code": 1}), ARCHIVE, WELL
    )
    stored = found.to_json(kind="docker")
    assert sorted(stored) == [
        "infra.docker.container_ready",
        "policy.healthy",
        "storage.archive_ready",
        "storage.volume_ready",
    ]
    assert Conditions.stored(stored, kind="docker") == found
    assert Conditions.stored({}, kind="docker").volume is UNSEEN


@pytest.mark.contract("WSP-02")
@pytest.mark.parametrize(
    ("seen", "phase"),
    [(RUNNING, "RUNNING"), (STANDBY, "STANDBY"), (ARCHIVED, "ARCHIVED"), (PENDING, "PENDING")],
)
def test_wsp_02_the_phase_follows_from_the_conditions(seen: Conditions, phase: str) -> None:
    assert phase_of(seen, is_deleted=False) == phase
    assert phase_of(seen, is_deleted=True) is Phase.DELETED
    ill = replace(seen, healthy=condition(False, ConditionReason.VOLUME_LOST))
    assert phase_of(ill, is_deleted=False) is Phase.ERROR


@pytest.mark.contract("WSP-06")
def test_wsp_06_what_is_wrong_is_said_in_this_order() -> None:
    lost = condition(False, ConditionReason.VOLUME_LOST)
    unreadable = condition(False, ConditionReason.ARCHIVE_NOT_FOUND)
    terminal = {"is_terminal": True, "reason": "NoSpace", "message": "full"}

    def reason(volume: Condition, container: Condition, archive: Condition) -> str:
        return conditions.workspace_health(
            volume=volume, container=container, archive=archive, error_info=terminal
        ).reason

    assert reason(lost, RUNS, unreadable) == "ContainerWithoutVolume"
    assert reason(lost, NO_CONTAINER, unreadable) == "VolumeLost"
    assert reason(NO_VOLUME, NO_CONTAINER, unreadable) == "ArchiveAccessError"
    assert reason(VOLUME, NO_CONTAINER, unreadable) == "NoSpace"  # an archive harms nobody while a volume is there
    doomed = condition(False, ConditionReason.HOME_DOOMED)
    assert reason(doomed, NO_CONTAINER, unreadable) == "NoSpace"
    well = conditions.workspace_health(
        volume=VOLUME, container=RUNS, archive=NO_ARCHIVE, error_info=terminal | {"is_terminal": False}
    )
    assert well.status is True


def container(**more: object) -> SeenContainer:
    label = Label("1", "op", 1)
    plain = {"container_id": "c1", "name": "ws-1", "label": label, "volume": HOME, "running": True, "spec_hash": "new"}
    return SeenContainer(**(plain | more))  # type: ignore[arg-type]


@pytest.mark.contract("WSP-06")
@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ([container()], "ContainerRunning"),
        ([container(spec_hash="old")], "ContainerOutdated"),
        ([container(spec_hash=None)], "ContainerRunning"),
        ([container(volume="another")], "ContainerElsewhere"),
        ([container(volume=None)], "ContainerElsewhere"),
        ([container(running=False)], "ContainerExited"),
        ([container(running=False, placeholder=True, volume=None)], "Placeholder"),
        ([container(label=None)], "ContainerForeign"),
        ([], "NoContainer"),
        ([container(running=False), container(container_id="c2")], "ContainerRunning"),
    ],
)
def test_wsp_06_only_the_container_of_the_home_counts(seen: list[SeenContainer], reason: str) -> None:
    found = conditions.container_finding(seen, home=HOME, spec_hash="new")
    assert (found.reason, found.status) == (reason, reason in ("ContainerRunning", "ContainerOutdated"))


@pytest.mark.contract("WSP-06")
def test_wsp_06_only_the_live_volume_counts() -> None:
    states = {"dead": "DOOMED", "gone": "GONE", "filling": "FILLING"}

    def reason(*seen: str, live: str | None = None, home: str | None = None) -> str:
        return conditions.volume_finding(live=live, home=home, states=states, seen=seen).reason

    assert reason("live", "dead", live="live") == "VolumeProvisioned"
    assert reason("dead", "filling", live="live") == "VolumeLost"
    assert reason("dead", home="dead") == "HomeDoomed"
    assert reason("gone", home="gone") == "VolumeLeftOver"
    assert reason("dead", home=None) == "VolumeLeftOver"
    assert reason("filling") == "NoVolume"
    assert reason() == "NoVolume"


def situation(seen: Conditions, desired: DesiredState, **more: object) -> Situation:
    plain = {
        "desired": desired,
        "phase": phase_of(seen, is_deleted=False),
        "conditions": seen,
        "operation": Operation.NONE,
        "is_fresh": True,
        "is_frozen": False,
        "is_terminal": False,
        "is_deleted": False,
        "discard": False,
    }
    return Situation(**(plain | more))  # type: ignore[arg-type]


PLANS = {
    ("PENDING", "RUNNING"): "PROVISIONING",
    ("PENDING", "STANDBY"): "PROVISIONING",
    ("PENDING", "ARCHIVED"): None,
    ("PENDING", "DELETED"): "DELETING",
    ("ARCHIVED", "RUNNING"): "RESTORING",
    ("ARCHIVED", "STANDBY"): "RESTORING",
    ("ARCHIVED", "ARCHIVED"): None,
    ("ARCHIVED", "DELETED"): "DELETING",
    ("STANDBY", "RUNNING"): "STARTING",
    ("STANDBY", "STANDBY"): None,
    ("STANDBY", "ARCHIVED"): "ARCHIVING",
    ("STANDBY", "DELETED"): "ARCHIVING",
    ("RUNNING", "RUNNING"): None,
    ("RUNNING", "STANDBY"): "STOPPING",
    ("RUNNING", "ARCHIVED"): "STOPPING",
    ("RUNNING", "DELETED"): "STOPPING",
}


@pytest.mark.contract("WSP-05")
def test_wsp_05_a_plan_goes_one_level() -> None:
    found = {
        (phase_of(seen, is_deleted=False).value, desired.value): plan_operation(situation(seen, desired))
        for seen, desired in itertools.product((PENDING, ARCHIVED, STANDBY, RUNNING), DesiredState)
    }
    assert found == PLANS


@pytest.mark.contract("WSP-05")
@pytest.mark.parametrize("seen", [PENDING, ARCHIVED, STANDBY, RUNNING])
@pytest.mark.parametrize("desired", list(DesiredState))
def test_wsp_05_nothing_is_planned_on_what_is_not_known(seen: Conditions, desired: DesiredState) -> None:
    assert plan_operation(situation(seen, desired, is_fresh=False)) is None
    assert plan_operation(situation(seen, desired, is_frozen=True)) is None
    assert plan_operation(situation(seen, desired, operation=Operation.STARTING)) is None
    assert plan_operation(situation(seen, desired, is_deleted=True)) is None
    assert plan_operation(situation(seen, desired, is_terminal=True)) is None
    for name in ("volume", "container"):
        stale = replace(seen, **{name: replace(getattr(seen, name), stale=True)})
        assert plan_operation(situation(stale, desired)) is None
    ill = replace(seen, healthy=condition(False, ConditionReason.VOLUME_LOST))
    assert plan_operation(situation(ill, desired)) is None
    discarded = Operation.DELETING if desired is DesiredState.DELETED else None
    assert plan_operation(situation(ill, desired, discard=True)) is discarded


@pytest.mark.contract("WSP-01")
def test_wsp_01_a_bucket_that_is_away_keeps_nobody_from_starting() -> None:
    stale = replace(ARCHIVE, stale=True)
    assert plan_operation(situation(replace(STANDBY, archive=stale), DesiredState.RUNNING)) is Operation.STARTING
    assert plan_operation(situation(replace(ARCHIVED, archive=stale), DesiredState.RUNNING)) is None
    assert plan_operation(situation(replace(STANDBY, archive=stale), DesiredState.ARCHIVED)) is None


@pytest.mark.contract("WSP-05")
def test_wsp_05_what_is_left_over_goes() -> None:
    for reason in (ConditionReason.CONTAINER_EXITED, ConditionReason.PLACEHOLDER, ConditionReason.CONTAINER_ELSEWHERE):
        seen = replace(STANDBY, container=condition(False, reason))
        assert plan_operation(situation(seen, DesiredState.STANDBY)) is Operation.STOPPING
        assert plan_operation(situation(seen, DesiredState.RUNNING)) is Operation.STARTING
    foreign = replace(STANDBY, container=condition(False, ConditionReason.CONTAINER_FOREIGN))
    assert plan_operation(situation(foreign, DesiredState.STANDBY)) is None
    outdated = replace(RUNNING, container=condition(True, ConditionReason.CONTAINER_OUTDATED))
    assert plan_operation(situation(outdated, DesiredState.RUNNING)) is Operation.STOPPING
    used = replace(ARCHIVED, volume=condition(False, ConditionReason.HOME_DOOMED))
    assert plan_operation(situation(used, DesiredState.RUNNING)) is Operation.ARCHIVING


@pytest.mark.contract("WSP-05")
def test_wsp_05_an_operation_ends_by_what_was_seen_after_it() -> None:
    def end(operation: Operation, seen: Conditions, *, is_fresh: bool = True) -> Ending:
        return planning.operation_ending(operation, seen, is_fresh=is_fresh, home="home")

    ends = {
        Operation.STARTING: RUNNING,
        Operation.STOPPING: STANDBY,
        Operation.PROVISIONING: STANDBY,
        Operation.RESTORING: STANDBY,
        Operation.ARCHIVING: ARCHIVED,
        Operation.DELETING: ARCHIVED,
    }
    for operation, seen in ends.items():
        assert end(operation, seen) is Ending.COMPLETE
        assert end(operation, seen, is_fresh=False) is Ending.WAIT
        stale = replace(seen, volume=replace(seen.volume, stale=True))
        assert end(operation, stale) is Ending.WAIT
    assert end(Operation.STARTING, STANDBY) is Ending.REPEAT
    exited = replace(STANDBY, container=condition(False, ConditionReason.CONTAINER_EXITED))
    assert end(Operation.STARTING, exited) is Ending.EXITED
    assert end(Operation.STOPPING, RUNNING) is Ending.REPEAT
    assert end(Operation.ARCHIVING, STANDBY) is Ending.REPEAT
    assert end(Operation.ARCHIVING, PENDING) is Ending.UNREADABLE
    assert end(Operation.ARCHIVING, replace(ARCHIVED, archive=replace(ARCHIVE, stale=True))) is Ending.WAIT
    held = replace(ARCHIVED, container=condition(False, ConditionReason.PLACEHOLDER))
    assert end(Operation.ARCHIVING, held) is Ending.REPEAT
    left_over = replace(ARCHIVED, volume=condition(False, ConditionReason.VOLUME_LEFT_OVER))
    assert end(Operation.DELETING, left_over) is Ending.REPEAT
    assert end(Operation.ARCHIVING, left_over) is Ending.COMPLETE
    still_there = condition(False, ConditionReason.VOLUME_LEFT_OVER, detail={"volumes": ["home"]})
    assert end(Operation.ARCHIVING, replace(ARCHIVED, volume=still_there)) is Ending.REPEAT


@pytest.mark.contract("WSP-09")
def test_wsp_09_three_retries_come_at_once_then_ever_later() -> None:
    pauses = [planning.counted_pause_seconds(count, chance=0.5) for count in range(1, 15)]
    assert pauses == [0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert planning.counted_pause_seconds(5, chance=0.0) == pytest.approx(1.6)
    assert planning.counted_pause_seconds(5, chance=1.0) == pytest.approx(2.4)


@pytest.mark.contract("WSP-09")
def test_wsp_09_an_end_soon_after_the_start_is_a_crash_and_counts_once() -> None:
    def exited(**detail: object) -> Conditions:
        found = condition(False, ConditionReason.CONTAINER_EXITED, detail={"container_id": "c1"} | detail)
        return replace(STANDBY, container=found)

    assert planning.is_a_crash(exited(seconds_up=9.9), counted_id=None)
    assert not planning.is_a_crash(exited(seconds_up=9.9), counted_id="c1")
    assert not planning.is_a_crash(exited(seconds_up=10.0), counted_id=None)
    assert not planning.is_a_crash(exited(), counted_id=None)
    assert not planning.is_a_crash(STANDBY, counted_id=None)
