"""A driver of workspaces that keeps its contract in memory: quick, and with hands for a tenant and for accidents.

It passes the contract suite of drivers, so that what the loops meet here they meet at the real ones.
"""

import io
import itertools
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from socket import socket
from typing import BinaryIO, Final

from dpp_project import clock
from ops.workspaces.drivers.base import (
    DriverCorrupt,
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
    refuse_used_since,
)

FREE_BYTES: Final = 1 << 40


@dataclass
class Volume:
    label: Label | None
    files: dict[str, bytes] = field(default_factory=dict)
    starts: int = 0


class MemoryDriver:
    kind = "memory"

    def __init__(self) -> None:
        self.sentinel: str | None = None
        self.volumes: dict[str, Volume] = {}
        self.containers: dict[str, SeenContainer] = {}
        self.free = FREE_BYTES
        self.effects = 0
        """Verbs that have changed something."""
        self.is_away = False
        self._ids = itertools.count(1)
        self._lock = threading.RLock()

    # Looks.

    def list(self) -> Listing:
        with self._at_work():
            volumes = tuple(SeenVolume(name, volume.label) for name, volume in self.volumes.items())
            return Listing(self.sentinel, tuple(self.containers.values()), volumes)

    def look_container(self, name: str) -> SeenContainer | None:
        with self._at_work():
            return next((one for one in self.containers.values() if one.name == name), None)

    def look_volume(self, name: str) -> SeenVolume | None:
        with self._at_work():
            found = self.volumes.get(name)
            return None if found is None else SeenVolume(name, found.label, found.starts)

    def users_of(self, volume: str) -> tuple[str, ...]:
        with self._at_work():
            return tuple(one.container_id for one in self.containers.values() if one.volume == volume)

    def usage_bytes(self, volume: str) -> int:
        with self._at_work():
            return sum(len(content) for content in self._known(volume).files.values())

    def free_bytes(self) -> int:
        return self.free

    def logs(self, container_id: str, *, offset: int, bytes_max: int) -> LogPage:
        return LogPage(b"", offset, dropped=False)

    # Effects.

    def place_sentinel(self, token: str) -> VerbAnswer:
        with self._at_work():
            if self.sentinel not in (None, token):
                raise DriverRefused("another installation's sentinel lies here")
            answer = VerbAnswer.DONE if self.sentinel is None else VerbAnswer.ALREADY
            self.sentinel = token
            return answer

    def remove_leftovers(self) -> None:
        """A process in memory leaves none."""

    def ensure_volume(self, name: str, label: Label) -> VerbAnswer:
        with self._at_work():
            found = self.volumes.get(name)
            if found is None:
                self.volumes[name] = Volume(label)
                return self._done()
            if found.label is None or found.label.workspace_id != label.workspace_id:
                raise DriverRefused(f"{name} is not this workspace's", reason="NameTaken")
            return VerbAnswer.ALREADY

    def start(self, *, name: str, volume: str, spec: WorkspaceSpec, label: Label, spec_hash: str) -> VerbAnswer:
        with self._at_work():
            found = self.look_container(name)
            if found is not None:
                if found.running and (found.volume, found.spec_hash) == (volume, spec_hash):
                    return VerbAnswer.ALREADY
                raise DriverRefused(f"a container is called {name} already", reason="NameTaken")
            place = self.volumes.get(volume)
            if place is None or place.label is None or place.label.workspace_id != label.workspace_id:
                raise DriverRefused(f"{volume} is not there", reason="VolumeMissing")
            place.starts += 1
            self._add(
                SeenContainer(
                    container_id="",
                    name=name,
                    label=label,
                    volume=volume,
                    running=True,
                    spec_hash=spec_hash,
                    started_at=clock.now(),
                )
            )
            return self._done()

    def place_placeholder(self, *, name: str, label: Label) -> VerbAnswer:
        with self._at_work():
            found = self.look_container(name)
            if found is None:
                self._add(
                    SeenContainer(container_id="", name=name, label=label, volume=None, running=False, placeholder=True)
                )
                return self._done()
            is_own = found.placeholder and found.label is not None and found.label.op_id == label.op_id
            return VerbAnswer.ALREADY if is_own else VerbAnswer.IN_USE

    def remove_container(self, container_id: str, *, grace_seconds: float = 10.0) -> VerbAnswer:
        with self._at_work():
            return VerbAnswer.ABSENT if self.containers.pop(container_id, None) is None else self._done()

    def delete_volume(self, name: str, *, starts: int | None = None) -> VerbAnswer:
        with self._at_work():
            if name not in self.volumes:
                return VerbAnswer.ABSENT
            if self.users_of(name):
                return VerbAnswer.IN_USE
            refuse_used_since(SeenVolume(name, None, self.volumes[name].starts), starts)
            del self.volumes[name]
            return self._done()

    @contextmanager
    def export(self, volume: str) -> Iterator[BinaryIO]:
        with self._at_work():
            found = self._known(volume)
            before = dict(found.files)
            yield io.BytesIO(packed(before))
            if self.volumes.get(volume) is not found or found.files != before:
                raise DriverCorrupt(f"{volume} changed while it was read", reason="ChangedWhileRead")

    def import_(self, volume: str, tar: Iterator[bytes]) -> None:
        with self._at_work():
            found = self._known(volume)
            if found.files:
                raise DriverRefused(f"{volume} is not empty", reason="VolumeNotEmpty")
            content = unpacked(b"".join(tar))
            found.files |= content
            self._done()

    def exec_start(self, container_id: str, request: ExecRequest) -> RunningExec:
        raise DriverUnavailable("there are no processes in memory")

    def put_file(self, container_id: str, path: str, content: bytes) -> None:
        """As a tenant writes: into the home of a container that runs."""
        with self._at_work():
            found = self.containers.get(container_id)
            if found is None or not found.running or found.volume is None:
                raise DriverUnavailable(f"{container_id} does not run")
            self.volumes[found.volume].files[path] = content

    def connect(self, container_id: str, port: int) -> socket:
        raise DriverRefused("there are no ports in memory", reason="PortClosed")

    # Accidents.

    def exits(self, container_id: str, *, exit_code: int = 1, after_seconds: float = 60.0, oom: bool = False) -> None:
        found = self.containers[container_id]
        ended = (found.started_at or clock.now()) + timedelta(seconds=after_seconds)
        self.containers[container_id] = replace(
            found, running=False, ended_at=ended, exit_code=exit_code, out_of_memory=oom
        )

    def _known(self, volume: str) -> Volume:
        found = self.volumes.get(volume)
        if found is None or found.label is None:
            raise DriverRefused(f"{volume} is not there", reason="VolumeMissing")
        return found

    def _add(self, container: SeenContainer) -> None:
        container_id = f"c{next(self._ids)}"
        self.containers[container_id] = replace(container, container_id=container_id)

    def _done(self) -> VerbAnswer:
        self.effects += 1
        return VerbAnswer.DONE

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        if self.is_away:
            raise DriverUnavailable("the driver is away")
        with self._lock:
            yield


def packed(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def unpacked(content: bytes) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(content), mode="r") as tar:
        for member in tar:
            found = tar.extractfile(member)
            files[member.name] = b"" if found is None else found.read()
    return files
