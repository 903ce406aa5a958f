"""What a workspace may be, may be wished to be, and may have done to it. Pure: no ORM, no clock, no settings."""

from datetime import timedelta
from enum import StrEnum
from typing import Final

UNDELETE_FOR: Final = timedelta(days=7)
"""From the asking on; then its archives are collected, and its rows are for the books alone."""


class Phase(StrEnum):
    """Computed from the conditions, and stored beside them for queries."""

    DELETED = "DELETED"
    ERROR = "ERROR"
    RUNNING = "RUNNING"
    STANDBY = "STANDBY"
    ARCHIVED = "ARCHIVED"
    PENDING = "PENDING"


class DesiredState(StrEnum):
    """What the tenant asks for. PENDING cannot be asked for: it is what a new workspace begins at."""

    RUNNING = "RUNNING"
    STANDBY = "STANDBY"
    ARCHIVED = "ARCHIVED"
    DELETED = "DELETED"


LEVELS: Final = {Phase.RUNNING: 20, Phase.STANDBY: 10, Phase.ARCHIVED: 5, Phase.PENDING: 0, Phase.DELETED: -1}


class Operation(StrEnum):
    NONE = "NONE"
    PROVISIONING = "PROVISIONING"
    RESTORING = "RESTORING"
    STARTING = "STARTING"
    STOPPING = "STOPPING"
    ARCHIVING = "ARCHIVING"
    DELETING = "DELETING"


class OperationStep(StrEnum):
    """Where an operation is: committed before the effect that it stands for."""

    CLEAR = "clear"
    """Containers of ours go, by id."""
    START = "start"
    FENCE = "fence"
    """No container, a placeholder in its name, nobody at the volume."""
    UPLOAD = "upload"
    VERIFY = "verify"
    SEE_ARCHIVE = "see archive"
    """The archive is saved as the workspace's; the volume is safe until it was seen."""
    DELETE = "delete"
    """The volume is DOOMED, or is nobody's: there is no way back."""
    RELEASE = "release"
    """The placeholder goes."""
    ABANDON = "abandon"
    """The placeholder goes, and all is as it was."""
    SURVEY = "survey"
    """Does the bucket or the driver hold what no row knows?"""
    FILL = "fill"
    SWEEP = "sweep"
    """Volumes of attempts that were given up go."""
    OBSERVE = "observe"


FIRST_STEPS: Final = {
    Operation.PROVISIONING: OperationStep.SURVEY,
    Operation.RESTORING: OperationStep.SURVEY,
    Operation.STARTING: OperationStep.START,
    Operation.STOPPING: OperationStep.CLEAR,
    Operation.ARCHIVING: OperationStep.FENCE,
    Operation.DELETING: OperationStep.CLEAR,
}
WAITING_STEPS: Final = frozenset({OperationStep.SEE_ARCHIVE, OperationStep.OBSERVE})
"""Nothing is done until the monitor has looked."""
NO_WAY_BACK: Final = frozenset({OperationStep.DELETE, OperationStep.RELEASE, OperationStep.OBSERVE})
"""Of ARCHIVING: its volume is doomed, so that a failure neither ends nor abandons it."""


class VolumeState(StrEnum):
    """Each is committed before the effect it stands for."""

    FILLING = "FILLING"
    """May exist, may be half full, is read by nobody."""
    LIVE = "LIVE"
    """The home. At most one a workspace."""
    DOOMED = "DOOMED"
    """Will be deleted, and is never started again."""
    GONE = "GONE"


class ArchiveState(StrEnum):
    UPLOADING = "UPLOADING"
    VERIFIED = "VERIFIED"
    """Read back whole."""
    SUPERSEDED = "SUPERSEDED"
    """A newer one is verified and is the workspace's key."""
    QUARANTINED = "QUARANTINED"
    """Found in the bucket, known to no row, or not what its row says: kept for a person."""
    DELETED = "DELETED"


class Writer(StrEnum):
    """Who may change which columns; the trigger `workspace_writer_owns` holds them to it."""

    API = "api"
    MONITOR = "monitor"
    RECONCILER = "reconciler"
