"""What a driver answers and may be asked. The loops know nothing else of Docker or of processes.

Every verb may be called twice, by two processes at once, or by one that was given up: the second finds the work done
and says so. No answer is proof that a state holds; `list` is how the monitor sees what is.

What goes wrong is one of four. `DriverUnavailable` says nothing about the workspace and never counts against it.
`DriverRefused`, `DriverCorrupt` and `DriverNoSpace` are the workspace's own and count.
"""

import enum
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from socket import socket
from typing import BinaryIO, Final, Protocol

HOME: Final = "/home/workspace"
"""Where a workspace sees its volume, in every driver."""

EXEC_OUTPUT_BYTES_MAX: Final = 1_000_000
"""Of stdout, and of stderr; what comes after it is read and dropped."""


class DriverError(Exception):
    """`reason` is a CamelCase word for conditions and error_info, the text is for people.

    `for_good`: only a person can decide, and trying again would do the same.
    """

    reason: str = "DriverError"
    for_good: bool = False

    def __init__(self, message: str, *, reason: str | None = None, for_good: bool | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason
        if for_good is not None:
            self.for_good = for_good


class DriverUnavailable(DriverError):  # noqa: N818  named for the finding
    """The daemon, the disk or the store did not answer. Nothing is known; ask again later."""

    reason = "Unavailable"


class DriverRefused(DriverError):  # noqa: N818
    """It answered, and will not do this: an image that is not allowed, a name that another operation holds."""

    reason = "Refused"


class DriverCorrupt(DriverError):  # noqa: N818
    """What was read is not what was written. Repeating the same cannot help."""

    reason = "Corrupt"


class DriverNoSpace(DriverError):  # noqa: N818
    """The disk is full, or would be."""

    reason = "NoSpace"


class VerbAnswer(enum.Enum):
    DONE = "done"
    ALREADY = "already"
    ABSENT = "absent"
    IN_USE = "in use"


@dataclass(frozen=True, slots=True)
class WorkspaceLimits:
    """What one workspace may use at once. None: no limit of ours."""

    memory_mb: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceSpec:
    """What runs in a workspace. `image` is Docker's alone; the process driver runs the machine's own /usr."""

    image: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    """Started with the workspace by our init and started again when it ends; empty: nothing but the init."""
    ports: tuple[int, ...] = ()
    limits: WorkspaceLimits = WorkspaceLimits()


@dataclass(frozen=True, slots=True)
class Label:
    """Whose a container or volume is. A thing of this name without these labels is not ours."""

    workspace_id: str
    op_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class SeenContainer:
    """A container object, running or not. Destructive verbs take `container_id`, never the name."""

    container_id: str
    name: str
    label: Label | None
    volume: str | None
    running: bool
    placeholder: bool = False
    """Never started: it holds the name for an operation, so that a late start is refused."""
    spec_hash: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    out_of_memory: bool = False
    """The kernel has killed something in it for want of memory, at any time of its life."""
    restarts: int = 0
    """How often the init has started `spec.command` again."""
    crashes_in_a_row: int = 0
    """Runs of `spec.command` that ended within 10 s, since one that did not."""
    command_exit_code: int | None = None
    """Of its last run that ended."""


@dataclass(frozen=True, slots=True)
class SeenVolume:
    """A volume. One without our label was made by another program, whatever its name: it holds nothing of ours."""

    name: str
    label: Label | None
    starts: int | None = None
    """How often a container was started on it, counted beside it, where no restored database reaches. None in a list:
    not asked."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything of this installation that the driver holds, seen in one call."""

    sentinel: str | None
    """The token of the sentinel volume; without the right one this list is of another disk, and counts as no look."""
    containers: tuple[SeenContainer, ...]
    volumes: tuple[SeenVolume, ...]


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """`exec_id` is run once: a second one with this id is refused with `DriverRefused(reason="ExecRepeated")`."""

    exec_id: str
    argv: tuple[str, ...]
    deadline_seconds: float
    stdin: bytes = b""
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    output_bytes_max: int = EXEC_OUTPUT_BYTES_MAX


class ExecEnd(enum.Enum):
    EXITED = "exited"
    DEADLINE = "deadline"
    KILLED = "killed"  # by our word, or with the container


@dataclass(frozen=True, slots=True)
class ExecResult:
    end: ExecEnd
    exit_code: int | None
    """As a shell says it: 128 + n for a signal; None where the process never ended by itself."""
    stdout: bytes
    stderr: bytes
    stdout_cut: bool
    stderr_cut: bool
    seconds: float


class RunningExec(Protocol):
    """An exec under way. Closing the handle leaves the exec to its own deadline; after its end there is nothing to
    close.
    """

    def wait(self, timeout: float | None = None) -> ExecResult | None:
        """The end, or None while it still runs; KILLED where the container went away under it, whyever. Raises
        DriverUnavailable where the container lives and does not say how this ended, long after its deadline.
        """

    def stop(self) -> None:
        """Kill its whole tree. `wait` then answers KILLED."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LogPage:
    content: bytes
    next_offset: int
    """Where to go on; offsets grow with what was written, also past what was dropped."""
    dropped: bool
    """What stood before `content` is no longer kept."""


def refuse_used_since(seen: SeenVolume, starts: int | None) -> None:
    if starts is not None and (seen.starts or 0) > starts:
        said = f"{seen.name} was started {seen.starts} times, and not {starts} times as is known"
        raise DriverRefused(said, reason="UsedSince")


def bytes_per_file(disk: os.statvfs_result) -> int:
    """What one file takes of a disk that has room for so many: who makes all of them leaves no room for others, though
    not a byte is in them. 0: it has room for any number.
    """
    return disk.f_blocks * disk.f_frsize // disk.f_files if disk.f_files else 0


def free_on(disk: os.statvfs_result) -> int:
    """In bytes, and by the files that it has still room for."""
    free = disk.f_bavail * disk.f_frsize
    return min(free, disk.f_favail * bytes_per_file(disk)) if disk.f_files else free


MEASURE: Final = "timeout 25 du --summarize --block-size=1 .; timeout 25 du --summarize --inodes ."
"""For a shell in the home. A file that goes away meanwhile makes du end with 1, after it has said what it saw; one that
does not come to its end says nothing, and keeps no loop for longer.
"""
TOO_MUCH_TO_MEASURE: Final = "TooMuchToMeasure"


def measured_bytes(said: bytes, disk: os.statvfs_result) -> int:
    """What MEASURE has said, in bytes. Raises ValueError where that is nothing."""
    sizes = [line.split()[0] for line in said.splitlines()]
    if len(sizes) != 2:
        raise ValueError("du has not said both")
    return max(int(sizes[0]), int(sizes[1]) * bytes_per_file(disk))


class Driver(Protocol):
    """`kind` is the middle of `infra.<kind>.container_ready`."""

    kind: str

    # Looks: each ends within its deadline or raises DriverUnavailable, and changes nothing.

    def list(self) -> Listing: ...

    def look_container(self, name: str) -> SeenContainer | None:
        """By name, by itself; None is a definite no."""

    def look_volume(self, name: str) -> SeenVolume | None: ...

    def users_of(self, volume: str) -> tuple[str, ...]:
        """Ids of the containers that mount it, placeholders left out."""

    def usage_bytes(self, volume: str) -> int:
        """The more of what its files hold, and of what so many files take of the disk. Raises DriverUnavailable
        ("TooMuchToMeasure") where that takes longer than a minute.
        """

    def free_bytes(self) -> int: ...

    def logs(self, container_id: str, *, offset: int, bytes_max: int) -> LogPage: ...

    # Effects.

    def place_sentinel(self, token: str) -> VerbAnswer:
        """Once in a driver's life. Raises DriverRefused where another token lies."""

    def remove_leftovers(self) -> None:
        """What processes that died over an hour ago left half-made, and no list shows: nobody's by now."""

    def ensure_volume(self, name: str, label: Label) -> VerbAnswer:
        """DONE or ALREADY. Raises DriverRefused where the name is taken by something without this label's workspace."""

    def start(self, *, name: str, volume: str, spec: WorkspaceSpec, label: Label, spec_hash: str) -> VerbAnswer:
        """DONE or ALREADY (the same spec and volume run). Returns when the init answers.

        Raises DriverRefused: "NameTaken" where a placeholder or another operation's container holds the name,
        "VolumeMissing" where the volume is not there with our label. Raises DriverUnavailable("Stopping") where the
        container of this name is being removed.
        """

    def place_placeholder(self, *, name: str, label: Label) -> VerbAnswer:
        """DONE, ALREADY (this op's own), or IN_USE (a container holds the name: remove it first)."""

    def remove_container(self, container_id: str, *, grace_seconds: float = 10.0) -> VerbAnswer:
        """Stop and remove, with everything it started; DONE or ABSENT. Also for a placeholder."""

    def delete_volume(self, name: str, *, starts: int | None = None) -> VerbAnswer:
        """DONE, ABSENT or IN_USE. Raises DriverRefused(reason="UsedSince") for one that was started more often than
        `starts`: who asks knows an older state of it. None: whatever it was used for.
        """

    def export(self, volume: str) -> AbstractContextManager[BinaryIO]:
        """The volume as a tar stream. Leaving the context after the end of the stream raises where tar did not exit
        with 0: `DriverCorrupt(reason="ChangedWhileRead")` for 1.
        """

    def import_(self, volume: str, tar: Iterator[bytes]) -> None:
        """Fill an empty volume (DriverRefused("VolumeNotEmpty") otherwise), and end with syncfs: what it returns from
        is on disk. Nothing outside the volume is written, no device node is made, whatever the archive holds. `tar` is
        read to its end, past the mark where tar stops: what it raises there says that it was not the verified archive,
        and is raised. Raises DriverCorrupt, DriverNoSpace.
        """

    def exec_start(self, container_id: str, request: ExecRequest) -> RunningExec:
        """Returns when it has begun; what its main process leaves behind is killed when that ends.

        Raises DriverRefused("ExecRepeated"). DriverUnavailable leaves open whether it began: take no new id then.
        """

    def put_file(self, container_id: str, path: str, content: bytes) -> None:
        """Whole or not at all; `path` is relative to the home and stays inside it."""

    def connect(self, container_id: str, port: int) -> socket:
        """A connection to a port of the workspace, relayed by the init. Raises DriverRefused(reason="PortClosed")."""
