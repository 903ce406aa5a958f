"""The driver of processes. What each verb leaves when its process dies in the middle stands beside the verb."""

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from dpp_project.processes import pidfd
from ops.workspaces.drivers.base import (
    DriverRefused,
    DriverUnavailable,
    ExecRequest,
    Label,
    Listing,
    LogPage,
    RunningExec,
    SeenContainer,
    SeenVolume,
    VerbAnswer,
    WorkspaceSpec,
    free_on,
    refuse_used_since,
)
from ops.workspaces.drivers.init_client import InitClient
from ops.workspaces.drivers.process import cgroups, locks, sandbox
from ops.workspaces.drivers.process.records import Containers, Record, new_id
from ops.workspaces.drivers.process.starting import InitTimes, Starting, WantedContainer, connect_control
from ops.workspaces.drivers.process.volumes import Volumes, disk_faults, write_durably
from ops.workspaces.init.pid1 import LogRing

FOLDERS: Final = ("volumes", "doomed", "drafts", "containers", "locks")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Of what this machine owes us; a look or a verb that meets one raises DriverUnavailable."""

    lock_seconds: float = 5.0
    answer_seconds: float = 5.0
    start_seconds: float = 15.0
    kill_seconds: float = 10.0


class ProcessDriver:
    kind = "process"

    def __init__(self, root: Path, *, deadlines: Deadlines = Deadlines(), times: InitTimes = InitTimes()) -> None:  # noqa: B008  both are frozen
        self._root = root
        self._deadlines = deadlines
        self._containers = Containers(root / "containers")
        self._volumes = Volumes(root)
        self._starting = Starting(root, self._containers, times, seconds=deadlines.start_seconds)

    # Looks.

    def list(self) -> Listing:
        with disk_faults():
            containers = tuple(self._seen(record) for record in self._containers.all())
            return Listing(self._sentinel(), containers, tuple(self._volumes.all()))

    def look_container(self, name: str) -> SeenContainer | None:
        with disk_faults():
            record = self._containers.read(_safe(name))
            return None if record is None else self._seen(record)

    def look_volume(self, name: str) -> SeenVolume | None:
        with disk_faults():
            return self._volumes.look(_safe(name))

    def users_of(self, volume: str) -> tuple[str, ...]:
        with disk_faults():
            return tuple(record.container_id for record in self._containers.all() if record.volume == volume)

    def usage_bytes(self, volume: str) -> int:
        with disk_faults():
            self._labelled(volume)
            return self._volumes.usage_bytes(volume)

    def free_bytes(self) -> int:
        with disk_faults():
            return free_on(os.statvfs(self._root))

    def logs(self, container_id: str, *, offset: int, bytes_max: int) -> LogPage:
        """From the file of the ring, so that a workspace that hangs or has ended can be read too."""
        record = self._known(container_id)
        with disk_faults():
            try:
                fd = os.open(self._containers.folder(record.name) / "ring", os.O_RDONLY)
            except FileNotFoundError:
                return LogPage(b"", offset, dropped=False)
            with os.fdopen(fd, "rb"):
                content, begin = LogRing(fd).read(offset, bytes_max)
        return LogPage(content, begin + len(content), dropped=begin > offset)

    # Effects on volumes.

    def place_sentinel(self, token: str) -> VerbAnswer:
        with disk_faults():
            self._make_folders()
            with self._lock("sentinel"):
                found = self._sentinel()
                if found == token:
                    return VerbAnswer.ALREADY
                if found is not None:
                    raise DriverRefused(f"another installation's sentinel lies in {self._root}")
                write_durably(self._root / "sentinel", token)
                return VerbAnswer.DONE

    def remove_leftovers(self) -> None:
        with disk_faults():
            self._make_folders()
            self._containers.remove_leftovers()
            self._volumes.remove_old_drafts()
            names = {record.name for record in self._containers.all()}
            cgroups.remove_leftovers(self._root / "containers", known=names)
            volumes = {volume.name for volume in self._volumes.all()}
            named = {"sentinel", *(f"c-{name}" for name in names), *(f"v-{name}" for name in volumes)}
            locks.remove_leftovers(self._root / "locks", kept=named.__contains__)

    def ensure_volume(self, name: str, label: Label) -> VerbAnswer:
        with disk_faults():
            self._make_folders()
            return self._volumes.ensure(_safe(name), label)

    def delete_volume(self, name: str, *, starts: int | None = None) -> VerbAnswer:
        """Died after the rename: the next call finds it doomed and goes on."""
        with disk_faults():
            self._make_folders()
            answer = self._doom(_safe(name), starts)
            if answer is VerbAnswer.IN_USE:
                return answer
            for place in self._volumes.doomed(name):
                answer = VerbAnswer.DONE
                self._volumes.remove_doomed(place)
            return answer

    def _doom(self, name: str, starts: int | None) -> VerbAnswer:
        if self._volumes.look(name) is None:
            return VerbAnswer.ABSENT
        try:
            with self._volume_lock(name, seconds=0) as lock:
                seen = self._volumes.look(name)
                if seen is None:
                    lock.forget()
                    return VerbAnswer.ABSENT
                if seen.label is None:
                    raise DriverRefused(f"{name} has no label of ours", reason="Foreign")
                if self.users_of(name):
                    return VerbAnswer.IN_USE
                refuse_used_since(seen, starts)
                self._volumes.doom(name)
                lock.forget()
                return VerbAnswer.DONE
        except locks.LockedByAnotherError:
            return VerbAnswer.IN_USE  # it is being started, read or filled

    def export(self, volume: str) -> AbstractContextManager[BinaryIO]:
        return self._export(volume)

    @contextlib.contextmanager
    def _export(self, volume: str) -> Iterator[BinaryIO]:
        with contextlib.ExitStack() as stack:
            with disk_faults():
                sandbox.refuse_where_it_cannot_work()
                self._labelled(volume)
                lock = stack.enter_context(self._volume_lock(volume, shared=True))
                self._labelled(volume)
                stream = self._volumes.export(volume, lock)
            yield stack.enter_context(stream)

    def import_(self, volume: str, tar: Iterator[bytes]) -> None:
        """Died before its end: tar meets the end of its input, fails, and nobody sets a marker."""
        with contextlib.ExitStack() as stack:
            with disk_faults():
                sandbox.refuse_where_it_cannot_work()
                self._labelled(volume)
                lock = stack.enter_context(self._volume_lock(volume))
                self._labelled(volume)
            self._volumes.import_(volume, tar, lock)

    # Effects on containers.

    def start(self, *, name: str, volume: str, spec: WorkspaceSpec, label: Label, spec_hash: str) -> VerbAnswer:
        """Died before the record: the init gets no config and ends. Died after it: the record is of an init that runs,
        or of one that ended for want of a config, which this operation may start again.
        """
        with disk_faults():
            sandbox.refuse_where_it_cannot_work()
            self._make_folders()
            with self._lock(f"c-{_safe(name)}"):
                found = self._containers.read(name)
                if found is not None and self._is_already(found, volume, label, spec_hash):
                    return VerbAnswer.ALREADY
                self._labelled(volume, label)
                try:
                    with self._volume_lock(volume, shared=True):
                        self._labelled(volume, label)
                        wanted = WantedContainer(name, volume, spec, label, spec_hash)
                        self._volumes.count_start(volume)
                        begun = self._starting.begin(self._volumes.home(volume), wanted)
                except locks.LockedByAnotherError as fault:
                    raise DriverUnavailable(f"{volume} is being filled or deleted", reason="VolumeBusy") from fault
                self._starting.finish(begun)
                return VerbAnswer.DONE

    @staticmethod
    def _is_already(found: Record, volume: str, label: Label, spec_hash: str) -> bool:
        """Whether it runs. Raises where the name is not to be had; False where a dead one may be started again."""
        if found.stopping:
            raise DriverUnavailable(f"{found.name} is being removed", reason="Stopping")
        same = (found.label.workspace_id, found.volume, found.spec_hash) == (label.workspace_id, volume, spec_hash)
        if same and found.runs():
            return True
        if same and not found.placeholder and found.label.op_id == label.op_id:
            return False
        raise DriverRefused(f"{found.name} is held by operation {found.label.op_id}", reason="NameTaken")

    def place_placeholder(self, *, name: str, label: Label) -> VerbAnswer:
        with disk_faults():
            self._make_folders()
            with self._lock(f"c-{_safe(name)}"):
                found = self._containers.read(name)
                if found is None:
                    self._containers.write(Record(new_id(name), name, label))
                    return VerbAnswer.DONE
                if found.placeholder and found.label.op_id == label.op_id:
                    return VerbAnswer.ALREADY
                return VerbAnswer.IN_USE

    def remove_container(self, container_id: str, *, grace_seconds: float = 10.0) -> VerbAnswer:
        """Marked, ended, removed. Died in between: it is seen as it is, never started, and removed by the next call."""
        with disk_faults():
            record = self._containers.by_id(container_id)
            if record is None:
                return VerbAnswer.ABSENT
            with self._lock(f"c-{record.name}") as lock:
                record = self._containers.by_id(container_id)
                if record is None:
                    return VerbAnswer.ABSENT
                if record.placeholder:
                    self._containers.remove(record.name)
                    lock.forget()
                    return VerbAnswer.DONE
                self._containers.mark_stopping(record)
            self._end(record, grace_seconds)  # without the lock: it may take its grace
            with self._lock(f"c-{record.name}") as lock:
                if self._containers.by_id(container_id) is None:
                    return VerbAnswer.ABSENT
                cgroups.remove_cgroups(record.cgroups)
                self._containers.remove(record.name)
                lock.forget()
                return VerbAnswer.DONE

    def _end(self, record: Record, grace_seconds: float) -> None:
        """Ask the init, and kill it where it does not answer or does not end; with it dies all it has started."""
        try:
            process = os.pidfd_open(record.pid)
        except ProcessLookupError:
            return
        try:
            if not record.runs():
                return  # the pid is another's now, and the descriptor with it
            if grace_seconds > 0 and self._ended_by_request(record, process, grace_seconds):
                return
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
            if not pidfd.has_ended(process, seconds=self._deadlines.kill_seconds):
                raise DriverUnavailable(f"{record.name} does not die", reason="DoesNotDie")
        finally:
            os.close(process)

    def _ended_by_request(self, record: Record, process: int, grace_seconds: float) -> bool:
        try:
            self._client(record).shutdown(grace_seconds, seconds=min(self._deadlines.answer_seconds, 2.0))
        except DriverUnavailable:
            return False
        return pidfd.has_ended(process, seconds=grace_seconds + 1.0)  # of a pid 1: all below it has

    # What runs inside.

    def exec_start(self, container_id: str, request: ExecRequest) -> RunningExec:
        if not request.argv or any("\0" in word for word in request.argv):
            raise DriverRefused("argv names a program, and no word of it holds a zero byte", reason="BadArgv")
        return self._client(self._running(container_id)).exec_start(request)

    def put_file(self, container_id: str, path: str, content: bytes) -> None:
        if not path or any(part in {"", ".", ".."} for part in path.split("/")) or "\0" in path:
            raise DriverRefused(f"{path!r} is no path inside the home", reason="PathRefused")
        self._client(self._running(container_id)).put_file(path, content)

    def connect(self, container_id: str, port: int) -> socket.socket:
        return self._client(self._running(container_id)).connect_port(port)

    # Beside.

    def _seen(self, record: Record) -> SeenContainer:
        return self._containers.seen(record, out_of_memory=cgroups.killed_for_memory(record.cgroups))

    def _known(self, container_id: str) -> Record:
        with disk_faults():
            record = self._containers.by_id(_safe(container_id))
        if record is None:
            raise DriverUnavailable(f"there is no container {container_id}", reason="ContainerGone")
        return record

    def _running(self, container_id: str) -> Record:
        record = self._known(container_id)
        if not record.runs():
            raise DriverUnavailable(f"{record.name} does not run", reason="NotRunning")
        return record

    def _client(self, record: Record) -> InitClient:
        folder = self._containers.folder(record.name)
        return InitClient(
            lambda seconds: connect_control(folder, seconds), answer_seconds=self._deadlines.answer_seconds
        )

    def _labelled(self, volume: str, label: Label | None = None) -> None:
        """Asked before the lock, so that no lock is made for nothing, and under it."""
        seen = self._volumes.look(_safe(volume))
        if seen is None or seen.label is None or (label and seen.label.workspace_id != label.workspace_id):
            raise DriverRefused(f"there is no volume {volume} of this workspace", reason="VolumeMissing")

    def _sentinel(self) -> str | None:
        try:
            return (self._root / "sentinel").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def _make_folders(self) -> None:
        for name in FOLDERS:
            (self._root / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    def _lock(self, name: str) -> AbstractContextManager[locks.NameLock]:
        return locks.held_name_lock(self._root / "locks" / name, seconds=self._deadlines.lock_seconds)

    def _volume_lock(
        self, volume: str, *, shared: bool = False, seconds: float | None = None
    ) -> AbstractContextManager[locks.NameLock]:
        wait = self._deadlines.lock_seconds if seconds is None else seconds
        return locks.held_name_lock(self._root / "locks" / f"v-{volume}", seconds=wait, shared=shared)


def _safe(name: str) -> str:
    """Names are ours, but a path is made of them."""
    if not name or len(name) > 200 or name.startswith(".") or not name.replace("-", "").replace(".", "").isalnum():
        raise DriverRefused(f"{name!r} is no name of ours", reason="BadName")
    return name
