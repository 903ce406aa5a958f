"""What was seen of a workspace: its conditions, and the phase that follows from them. Pure: no ORM, no clock.

A condition is true or false, never unknown. A look that failed keeps what the last one saw and marks it stale; who
acts on conditions has to ask `stale` too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from ops.workspaces.drivers.base import SeenContainer
from ops.workspaces.states import Phase, VolumeState

VOLUME_READY: Final = "storage.volume_ready"
ARCHIVE_READY: Final = "storage.archive_ready"
HEALTHY: Final = "policy.healthy"


def container_key(kind: str) -> str:
    """`kind` is the driver's: `infra.docker.container_ready`."""
    return f"infra.{kind}.container_ready"


class ConditionReason(StrEnum):
    NOT_SEEN_YET = "NotSeenYet"

    VOLUME_PROVISIONED = "VolumeProvisioned"
    NO_VOLUME = "NoVolume"
    VOLUME_LOST = "VolumeLost"
    HOME_DOOMED = "HomeDoomed"
    """The former home: archived, to be deleted, still there."""
    VOLUME_LEFT_OVER = "VolumeLeftOver"
    """Not a home, and our rows call it dead."""

    CONTAINER_RUNNING = "ContainerRunning"
    CONTAINER_OUTDATED = "ContainerOutdated"
    """It runs, by a spec that was changed since."""
    CONTAINER_EXITED = "ContainerExited"
    CONTAINER_ELSEWHERE = "ContainerElsewhere"
    """It runs on a volume that is not the home."""
    PLACEHOLDER = "Placeholder"
    CONTAINER_FOREIGN = "ContainerForeign"
    """Our name without our label: nothing of ours, and never removed."""
    NO_CONTAINER = "NoContainer"

    ARCHIVE_UPLOADED = "ArchiveUploaded"
    ARCHIVE_CORRUPTED = "ArchiveCorrupted"
    ARCHIVE_EXPIRED = "ArchiveExpired"
    ARCHIVE_NOT_FOUND = "ArchiveNotFound"
    NO_ARCHIVE = "NoArchive"

    ALL_WELL = "AllWell"
    CONTAINER_WITHOUT_VOLUME = "ContainerWithoutVolume"
    ARCHIVE_ACCESS_ERROR = "ArchiveAccessError"


LEFT_OVER_CONTAINERS: Final = frozenset(
    {ConditionReason.CONTAINER_EXITED, ConditionReason.CONTAINER_ELSEWHERE, ConditionReason.PLACEHOLDER}
)
"""Ours, and no home's running container: to be removed."""
GONE_VOLUMES: Final = frozenset({ConditionReason.NO_VOLUME, ConditionReason.VOLUME_LEFT_OVER})
"""No home is there, neither live nor doomed."""
UNREADABLE_ARCHIVES: Final = frozenset(
    {ConditionReason.ARCHIVE_CORRUPTED, ConditionReason.ARCHIVE_EXPIRED, ConditionReason.ARCHIVE_NOT_FOUND}
)


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What one look says of one condition."""

    status: bool
    reason: str
    message: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Condition:
    status: bool
    reason: str
    message: str
    last_transition_time: str
    stale: bool = False
    detail: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = {
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "last_transition_time": self.last_transition_time,
        }
        return plain | ({"stale": True} if self.stale else {}) | ({"detail": dict(self.detail)} if self.detail else {})


UNSEEN: Final = Condition(False, ConditionReason.NOT_SEEN_YET, "not looked at yet", "", stale=True)


def read_condition(stored: Mapping[str, Any], key: str) -> Condition:
    """As stored; UNSEEN where it is not."""
    found = stored.get(key)
    if found is None:
        return UNSEEN
    return Condition(
        status=found["status"],
        reason=found["reason"],
        message=found["message"],
        last_transition_time=found["last_transition_time"],
        stale=found.get("stale", False),
        detail=found.get("detail", {}),
    )


def condition_after_look(before: Condition, finding: Glimpse | None, *, at: str) -> Condition:
    """No finding: the look failed. The time of the last transition moves with the status alone."""
    if finding is None:
        return replace(before, stale=True)
    moved = before.status is not finding.status or not before.last_transition_time
    since = at if moved else before.last_transition_time
    return Condition(finding.status, finding.reason, finding.message, since, detail=finding.detail)


@dataclass(frozen=True, slots=True)
class Conditions:
    volume: Condition
    container: Condition
    archive: Condition
    healthy: Condition

    @classmethod
    def stored(cls, conditions: Mapping[str, Any], *, kind: str) -> "Conditions":
        return cls(
            volume=read_condition(conditions, VOLUME_READY),
            container=read_condition(conditions, container_key(kind)),
            archive=read_condition(conditions, ARCHIVE_READY),
            healthy=read_condition(conditions, HEALTHY),
        )

    def to_json(self, *, kind: str) -> dict[str, Any]:
        return {
            VOLUME_READY: self.volume.to_json(),
            container_key(kind): self.container.to_json(),
            ARCHIVE_READY: self.archive.to_json(),
            HEALTHY: self.healthy.to_json(),
        }


def phase_of(conditions: Conditions, *, is_deleted: bool) -> Phase:
    if is_deleted:
        return Phase.DELETED
    if not conditions.healthy.status:
        # Before the first look nothing is known, and nothing is wrong.
        return Phase.PENDING if conditions.healthy is UNSEEN else Phase.ERROR
    if conditions.volume.status:
        return Phase.RUNNING if conditions.container.status else Phase.STANDBY
    return Phase.ARCHIVED if conditions.archive.status else Phase.PENDING


def workspace_health(
    *, volume: Condition, container: Condition, archive: Condition, error_info: Mapping[str, Any] | None
) -> Glimpse:
    """The first of these that holds. An archive that cannot be read harms nobody while a volume is there."""
    if container.status and not volume.status:
        return Glimpse(
            status=False,
            reason=ConditionReason.CONTAINER_WITHOUT_VOLUME,
            message="a container runs whose volume is gone",
        )
    if volume.reason == ConditionReason.VOLUME_LOST:
        return Glimpse(status=False, reason=ConditionReason.VOLUME_LOST, message=volume.message)
    if volume.reason in GONE_VOLUMES and archive.reason in UNREADABLE_ARCHIVES:
        return Glimpse(
            status=False, reason=ConditionReason.ARCHIVE_ACCESS_ERROR, message=f"{archive.reason}: {archive.message}"
        )
    if error_info is not None and error_info.get("is_terminal"):
        return Glimpse(status=False, reason=error_info["reason"], message=error_info["message"])
    return Glimpse(status=True, reason=ConditionReason.ALL_WELL, message="nothing is wrong")


def volume_finding(*, live: str | None, home: str | None, states: Mapping[str, str], seen: Iterable[str]) -> Glimpse:
    """`seen` are the names of volumes with this workspace's label, each looked for twice where it is not there."""
    there = set(seen)
    if live is not None:
        if live in there:
            return Glimpse(status=True, reason=ConditionReason.VOLUME_PROVISIONED, message=f"{live} is there")
        return Glimpse(
            status=False, reason=ConditionReason.VOLUME_LOST, message=f"{live} is gone, and we did not delete it"
        )
    if home in there and states.get(home or "") == VolumeState.DOOMED:
        return Glimpse(
            status=False, reason=ConditionReason.HOME_DOOMED, message=f"{home} is to be deleted and still there"
        )
    dead = sorted(name for name in there if states.get(name) in (VolumeState.DOOMED, VolumeState.GONE))
    if dead:
        return Glimpse(
            status=False,
            reason=ConditionReason.VOLUME_LEFT_OVER,
            message=f"left over: {', '.join(dead)}",
            detail={"volumes": dead},
        )
    return Glimpse(status=False, reason=ConditionReason.NO_VOLUME, message="there is none")


def container_finding(containers: Sequence[SeenContainer], *, home: str | None, spec_hash: str) -> Glimpse:
    """`containers` have this workspace's label or its name; `home` is the live volume, there or not."""
    ours = [one for one in containers if one.label is not None]
    for one in ours:
        if one.running and one.volume is not None and one.volume == home:
            same = one.spec_hash in (None, spec_hash)
            reason = ConditionReason.CONTAINER_RUNNING if same else ConditionReason.CONTAINER_OUTDATED
            message = "it runs" if same else "it runs by an older spec"
            return Glimpse(status=True, reason=reason, message=message, detail={"container_id": one.container_id})
    for one in ours:
        if one.running:
            return Glimpse(
                status=False,
                reason=ConditionReason.CONTAINER_ELSEWHERE,
                message=f"it runs on {one.volume}, which is not the home",
                detail={"container_id": one.container_id},
            )
    for one in ours:
        if not one.placeholder:
            return Glimpse(
                status=False,
                reason=ConditionReason.CONTAINER_EXITED,
                message=_exit_in_words(one),
                detail=_exit_detail(one),
            )
    if ours:
        return Glimpse(status=False, reason=ConditionReason.PLACEHOLDER, message="an operation holds the name")
    if containers:
        return Glimpse(
            status=False, reason=ConditionReason.CONTAINER_FOREIGN, message="a container without our label has the name"
        )
    return Glimpse(status=False, reason=ConditionReason.NO_CONTAINER, message="there is none")


def _exit_in_words(container: SeenContainer) -> str:
    if container.out_of_memory:
        return "it was killed for want of memory"
    code = "" if container.exit_code is None else f" with {container.exit_code}"
    return f"it ended{code}"


def _exit_detail(container: SeenContainer) -> dict[str, Any]:
    detail: dict[str, Any] = {"container_id": container.container_id, "exit_code": container.exit_code}
    if container.out_of_memory:
        detail["out_of_memory"] = True
    if container.started_at is not None and container.ended_at is not None:
        detail["seconds_up"] = round((container.ended_at - container.started_at).total_seconds(), 1)
    return detail
