"""From what was seen to what is done next: one operation, one level further. Pure: no ORM, no clock.

The root of the chain comes first: no container without a volume, no volume without what it is filled from. An
operation ends by what was seen after its last effect, and by nothing else.
"""

import enum
from dataclasses import dataclass
from typing import Final

from ops.workspaces.conditions import GONE_VOLUMES, LEFT_OVER_CONTAINERS, ConditionReason, Conditions
from ops.workspaces.states import LEVELS, DesiredState, Operation, Phase

RETRIES_AT_ONCE: Final = 3
COUNTED_MAX: Final = 10
"""The failure that ends in ERROR."""
PAUSE_MAX_SECONDS: Final = 300.0
JITTER: Final = 0.2
CRASH_SECONDS: Final = 10.0
"""A container that ends within so many seconds of its start has failed to start."""

_TARGETS: Final = {
    DesiredState.RUNNING: LEVELS[Phase.RUNNING],
    DesiredState.STANDBY: LEVELS[Phase.STANDBY],
    DesiredState.ARCHIVED: LEVELS[Phase.ARCHIVED],
    DesiredState.DELETED: LEVELS[Phase.DELETED],
}
_UP: Final = {
    Phase.PENDING: Operation.PROVISIONING,
    Phase.ARCHIVED: Operation.RESTORING,
    Phase.STANDBY: Operation.STARTING,
}
_DOWN: Final = {
    Phase.RUNNING: Operation.STOPPING,
    Phase.STANDBY: Operation.ARCHIVING,
    Phase.ARCHIVED: Operation.DELETING,
    Phase.PENDING: Operation.DELETING,
}
_NEEDS_THE_BUCKET: Final = frozenset({Operation.ARCHIVING, Operation.RESTORING})


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a plan is made of, as one row says it."""

    desired: DesiredState
    phase: Phase
    conditions: Conditions
    operation: Operation
    is_fresh: bool
    """It was looked at after the last effect (observed_rev has reached rev)."""
    is_frozen: bool
    is_terminal: bool
    """An operation ended for good, whether or not the monitor has copied it into the conditions."""
    is_deleted: bool
    discard: bool


def plan_operation(now: Situation) -> Operation | None:
    """What to begin; None: nothing, or not yet."""
    seen = now.conditions
    if now.operation is not Operation.NONE or now.is_frozen or now.is_deleted or not now.is_fresh:
        return None
    if seen.volume.stale or seen.container.stale:
        return None
    if now.is_terminal or now.phase is Phase.ERROR:
        return Operation.DELETING if now.desired is DesiredState.DELETED and now.discard else None
    wanted = _next_level(now)
    return None if wanted in _NEEDS_THE_BUCKET and seen.archive.stale else wanted


def _next_level(now: Situation) -> Operation | None:
    seen = now.conditions
    if seen.volume.reason == ConditionReason.HOME_DOOMED:
        # A process used the home when it was to be deleted, and may have written to it. So it is archived once more,
        # also where the desired state is another.
        return Operation.ARCHIVING
    here, target = LEVELS[now.phase], _TARGETS[now.desired]
    if target > here:
        # A new workspace that is to be archived has nothing to put there.
        return _UP[now.phase] if now.phase is not Phase.PENDING or target > LEVELS[Phase.ARCHIVED] else None
    if target < here:
        return _DOWN[now.phase]
    if seen.container.reason == ConditionReason.CONTAINER_OUTDATED:
        return Operation.STOPPING
    if seen.container.reason in LEFT_OVER_CONTAINERS and not seen.container.status:
        return Operation.STOPPING
    return None


class Ending(enum.Enum):
    COMPLETE = "complete"
    WAIT = "wait"
    REPEAT = "repeat"
    """What was done is not to be seen: done again."""
    EXITED = "exited"
    """It was started, and has ended."""
    UNREADABLE = "unreadable"
    """The archive that was written cannot be read."""


def operation_ending(operation: Operation, seen: Conditions, *, is_fresh: bool, home: str | None) -> Ending:
    """Of an operation whose effects are all done. What else is left over is the sweeper's, not an archiving's."""
    if not is_fresh or seen.volume.stale or seen.container.stale:
        return Ending.WAIT
    is_cleared = seen.container.reason in (ConditionReason.NO_CONTAINER, ConditionReason.CONTAINER_FOREIGN)
    is_gone = is_cleared and seen.volume.reason == ConditionReason.NO_VOLUME
    is_home_gone = seen.volume.reason in GONE_VOLUMES and home not in seen.volume.detail.get("volumes", ())
    if operation is Operation.STARTING and seen.container.reason == ConditionReason.CONTAINER_EXITED:
        return Ending.EXITED
    if operation is Operation.ARCHIVING and is_cleared and is_home_gone:
        return archive_ending(seen, is_fresh=is_fresh)
    is_reached = {
        Operation.STARTING: seen.container.status,
        Operation.STOPPING: is_cleared,
        Operation.PROVISIONING: seen.volume.status,
        Operation.RESTORING: seen.volume.status,
        Operation.ARCHIVING: False,
        Operation.DELETING: is_gone,
    }
    return Ending.COMPLETE if is_reached[operation] else Ending.REPEAT


def archive_ending(seen: Conditions, *, is_fresh: bool) -> Ending:
    """Whether the archive that the row names was seen."""
    if not is_fresh or seen.archive.stale:
        return Ending.WAIT
    return Ending.COMPLETE if seen.archive.status else Ending.UNREADABLE


def counted_pause_seconds(count: int, *, chance: float) -> float:
    """After the failure number `count`; `chance` is from 0 to 1."""
    return 0.0 if count <= RETRIES_AT_ONCE else pause_seconds(count - RETRIES_AT_ONCE, chance=chance)


def pause_seconds(number: int, *, chance: float) -> float:
    """1, 2, 4 … 300 s, a fifth to either side, so that many that failed together do not come back together."""
    plain = min(PAUSE_MAX_SECONDS, 2.0 ** min(max(number, 1) - 1, 16))
    return plain * (1 - JITTER + 2 * JITTER * chance)


def is_a_crash(seen: Conditions, *, counted_id: str | None) -> bool:
    """A container that ended too soon after its start, and was not counted yet."""
    detail = seen.container.detail
    if seen.container.reason != ConditionReason.CONTAINER_EXITED or detail.get("container_id") == counted_id:
        return False
    return detail.get("seconds_up") is not None and detail["seconds_up"] < CRASH_SECONDS
