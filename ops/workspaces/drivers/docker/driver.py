"""Volumes and containers of a Docker daemon. The name of a container and the use of a volume are the daemon's to lock.

A volume has no id in Docker, and a container that names one that is gone would be given a new one: so a start looks
again once its container is made, from which moment the daemon refuses to delete the volume. A volume without our labels
is such a one.
"""

import contextlib
import io
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import docker
import requests
from docker.errors import APIError, ImageNotFound, NotFound

from ops.workspaces.drivers.base import (
    HOME,
    MEASURE,
    TOO_MUCH_TO_MEASURE,
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
    free_on,
    measured_bytes,
    refuse_used_since,
)
from ops.workspaces.drivers.docker import daemon
from ops.workspaces.drivers.docker.daemon import INSTALLATION, ImageMissing, daemon_faults, label_in, labels_of
from ops.workspaces.drivers.docker.images import Images
from ops.workspaces.drivers.docker.inside import AT, COMMAND, LEFTOVER_SECONDS, TENANT, Inside
from ops.workspaces.drivers.init_client import InitClient
from ops.workspaces.drivers.process import cgroups
from ops.workspaces.drivers.process.starting import InitTimes
from ops.workspaces.drivers.process.volumes import tell_of_sockets

SPEC: Final = "dpp.spec"
VOLUME: Final = "dpp.volume"
FOLDER: Final = "dpp.folder"
PLACEHOLDER: Final = "dpp.placeholder"
TOKEN: Final = "dpp.sentinel"  # noqa: S105  a mark, no secret
INIT_PROCESSES: Final = 16
ANSWER_SECONDS: Final = 10.0
START_SECONDS: Final = 20.0
KILL_SECONDS: Final = 10.0
TAR_KEEPS: Final = ("--xattrs", "--xattrs-include=*", "--acls", "--sparse", "--numeric-owner")
READS_ALL: Final = ("DAC_OVERRIDE", "DAC_READ_SEARCH")
WRITES_ALL: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID")
"""Without these foreign owners of files end tar with 2."""
_GIVE: Final = """
import fcntl, os, sys
fd, owner = os.open(".", os.O_RDONLY), (int(sys.argv[1]), int(sys.argv[2]))
fcntl.flock(fd, fcntl.LOCK_EX)
found = os.fstat(fd)
if (found.st_uid, found.st_gid) == owner:
    print("already")
else:
    os.fchown(fd, *owner)
"""
"""Of many at once, one gives the volume to the tenant's user."""
OF_THE_INIT: Final = ("SETUID", "SETGID", "SETPCAP", "KILL")
"""No command keeps one: the init gives up even the right to have them (init/pid1.py)."""


class DockerDriver:
    kind = "docker"

    def __init__(
        self,
        folder: Path,
        *,
        installation: str,
        images: Sequence[str],
        base_url: str | None = None,
        times: InitTimes = InitTimes(),  # noqa: B008  frozen
    ) -> None:
        self._installation = installation
        self._images = Images(images, partial(daemon.connect_docker, base_url))
        self._inside = Inside(folder / "run", times)
        self._api = daemon.connect_docker(base_url)

    # Looks.

    def list(self) -> Listing:
        with daemon_faults("listing"):
            containers = self._api.containers(all=True, filters={"label": [f"{INSTALLATION}={self._installation}"]})
            volumes = self._api.volumes(filters={"name": ["ws-"]}).get("Volumes") or []
            seen = [self._listed(one) for one in containers if "dpp.tool" not in one["Labels"]]
            return Listing(
                sentinel=self._sentinel(),
                containers=tuple(one for one in seen if one is not None),
                volumes=tuple(
                    SeenVolume(one["Name"], label_in(one["Labels"], self._installation))
                    for one in volumes
                    if (one["Labels"] or {}).get(INSTALLATION, self._installation) == self._installation
                ),
            )

    def look_container(self, name: str) -> SeenContainer | None:
        with daemon_faults(f"looking at {name}"):
            found = self._inspected(name)
            return None if found is None else self._seen(found)

    def look_volume(self, name: str) -> SeenVolume | None:
        with daemon_faults(f"looking at {name}"):
            try:
                found = self._api.inspect_volume(name)
            except NotFound:
                return None
            return SeenVolume(name, label_in(found["Labels"], self._installation), self._inside.starts(name))

    def users_of(self, volume: str) -> tuple[str, ...]:
        with daemon_faults(f"asking who uses {volume}"):
            found = self._api.containers(all=True, filters={"volume": [volume]})
            return tuple(one["Id"] for one in found if "dpp.tool" not in one["Labels"])

    def usage_bytes(self, volume: str) -> int:
        self._labelled(volume)
        with self._tool(volume, ("/bin/sh", "-c", MEASURE), capabilities=READS_ALL, read_only=True) as tool:
            said = b"".join(tool.output())
            ended = tool.end()
        try:
            return measured_bytes(said, self._disk())
        except ValueError as fault:
            raise DriverUnavailable(f"measuring {volume}: {ended.errors}", reason=TOO_MUCH_TO_MEASURE) from fault

    def free_bytes(self) -> int:
        """Where the daemon keeps its volumes, which is this host's."""
        return free_on(self._disk())

    def _disk(self) -> os.statvfs_result:
        with daemon_faults("asking for the daemon's folder"):
            return os.statvfs(Path(self._api.info()["DockerRootDir"]) / "volumes")

    def logs(self, container_id: str, *, offset: int, bytes_max: int) -> LogPage:
        return self._inside.logs(self._folder_of(container_id), offset=offset, bytes_max=bytes_max)

    # Effects on volumes.

    def place_sentinel(self, token: str) -> VerbAnswer:
        with daemon_faults("placing the sentinel"):
            found = self._sentinel()
            if found is None:
                self._api.create_volume(self._sentinel_name(), labels={INSTALLATION: self._installation, TOKEN: token})
                if self._sentinel() == token:
                    return VerbAnswer.DONE
            if found == token:
                return VerbAnswer.ALREADY
            raise DriverRefused(f"another installation called {self._installation} has its sentinel at this daemon")

    def remove_leftovers(self) -> None:
        """Tools too that were made and never started: one that began ends by itself, and these would hold a volume."""
        with daemon_faults("looking for leftovers"):
            ours = self._api.containers(all=True, filters={"label": [f"{INSTALLATION}={self._installation}"]})
            self._inside.remove_leftovers(known=[one["Labels"].get(FOLDER, "") for one in ours])
            for one in ours:
                age = time.time() - one["Created"]
                if "dpp.tool" in one["Labels"] and one["State"] == "created" and age > LEFTOVER_SECONDS:
                    self._removed(one["Id"])

    def ensure_volume(self, name: str, label: Label) -> VerbAnswer:
        """Made, then given to the tenant's user. Died in between: nothing of the tenant's can be in it yet, and the
        next call gives it, since the root of a volume that was given is not root's."""
        seen = self.look_volume(name)
        if seen is not None and (seen.label is None or seen.label.workspace_id != label.workspace_id):
            raise DriverRefused(f"{name} is there, and is not of workspace {label.workspace_id}")
        if seen is None:
            with daemon_faults(f"making {name}"):
                labels = {INSTALLATION: self._installation, **labels_of(label)}
                self._api.create_volume(name, labels=labels)
        words = ("python3", "-I", "-S", "-c", _GIVE, *map(str, TENANT))
        said = self._told(name, words, capabilities=("CHOWN",))
        again = self.look_volume(name)
        if again is None or again.label is None or again.label.workspace_id != label.workspace_id:
            raise DriverUnavailable(f"{name} came and went meanwhile")
        return VerbAnswer.ALREADY if b"already" in said else VerbAnswer.DONE

    def delete_volume(self, name: str, *, starts: int | None = None) -> VerbAnswer:
        seen = self.look_volume(name)
        if seen is None:
            return VerbAnswer.ABSENT
        if seen.label is None:
            raise DriverRefused(f"{name} has no label of ours", reason="Foreign")
        refuse_used_since(seen, starts)
        with daemon_faults(f"deleting {name}"):
            try:
                self._api.remove_volume(name)
            except NotFound:
                return VerbAnswer.ABSENT
            except APIError as fault:
                if fault.status_code == requests.codes.conflict:
                    return VerbAnswer.IN_USE
                raise
        self._inside.forget_starts(name)
        return VerbAnswer.DONE

    def export(self, volume: str) -> AbstractContextManager[BinaryIO]:
        return self._export(volume)

    @contextlib.contextmanager
    def _export(self, volume: str) -> Iterator[BinaryIO]:
        self._labelled(volume)
        command = ("tar", "--create", "--format=posix", *TAR_KEEPS, "--file=-", ".")
        with self._tool(volume, command, capabilities=READS_ALL, read_only=True) as tool:
            stream = _Stream(tool.output())
            yield cast("BinaryIO", io.BufferedReader(stream, 1 << 20))
            if not stream.is_read:
                return  # left before its end: nothing is said of the whole
            ended = tool.end()
            if ended.code == 1:
                raise DriverCorrupt(f"reading {volume}: {ended.errors}", reason="ChangedWhileRead")
            if ended.code != 0:
                raise daemon.fault_of_tar(f"reading {volume}", ended)
            tell_of_sockets(volume, ended.errors)

    def import_(self, volume: str, tar: Iterator[bytes]) -> None:
        """A tool without a network sees the volume alone. It makes no device node: it has not the capability."""
        self._labelled(volume)
        if self._told(volume, ("find", ".", "-mindepth", "1", "-print", "-quit"), capabilities=READS_ALL):
            raise DriverRefused(f"{volume} is not empty", reason="VolumeNotEmpty")
        extract = ("tar", "--extract", "--preserve-permissions", "--same-owner", *TAR_KEEPS, "--file=-")
        command = ("/bin/sh", "-c", '"$@" && exec sync --file-system .', "sh", *extract)
        with self._tool(volume, command, capabilities=WRITES_ALL, stdin=True) as tool:
            tool.give(tar)
            for _piece in tool.output():
                pass
            ended = tool.end()
            if ended.code != 0:
                raise daemon.fault_of_tar(f"filling {volume}", ended)

    # Effects on containers.

    def start(self, *, name: str, volume: str, spec: WorkspaceSpec, label: Label, spec_hash: str) -> VerbAnswer:
        """Died before the start: a container of this operation that does not run, which the next call starts."""
        with daemon_faults(f"starting {name}"):
            found, is_ours = self._inspected(name), False
            if found is None:
                self._labelled(volume, label)
                found, is_ours = self._created(name, volume, spec, label, spec_hash)
            if not is_ours and self._runs_already(found, volume, label, spec_hash):
                return VerbAnswer.ALREADY
            try:
                self._labelled(volume, label)
            except DriverRefused:  # it went meanwhile, and the daemon has made another
                self._removed(found["Id"])
                raise
            self._inside.count_start(volume)
            self._api.start(found["Id"])
        self._await_init(found)
        return VerbAnswer.DONE if is_ours else VerbAnswer.ALREADY

    def _await_init(self, found: Mapping[str, Any]) -> None:
        """Its socket comes a moment after its start. One that never answers is seen as it is, and removed."""
        client = self._client(Path(found["Config"]["Labels"][FOLDER]), START_SECONDS)
        end = daemon.docker_deadline(START_SECONDS)
        while True:
            try:
                client.ping(START_SECONDS)
            except DriverUnavailable as fault:
                seen = self.look_container(found["Id"])
                if seen is None or not seen.running or time.monotonic() > end:
                    code = None if seen is None else seen.exit_code
                    said = f"{found['Name']} did not come up ({code}): {fault}"
                    raise DriverUnavailable(said, reason="StartFailed") from fault
                time.sleep(0.02)
            else:
                return

    def _runs_already(self, found: Mapping[str, Any], volume: str, label: Label, spec_hash: str) -> bool:
        """Raises where the name is not to be had; False for one that may be started again."""
        labels = found["Config"]["Labels"]
        held = label_in(labels, self._installation)
        if FOLDER in labels and self._inside.is_stopping(Path(labels[FOLDER])):
            raise DriverUnavailable(f"{found['Name']} is being removed", reason="Stopping")
        same = held is not None and (held.workspace_id, labels.get(VOLUME), labels.get(SPEC)) == (
            label.workspace_id,
            volume,
            spec_hash,
        )
        if same and found["State"]["Running"]:
            return True
        if same and held is not None and held.op_id == label.op_id:
            return False
        raise DriverRefused(f"{found['Name']} is held by operation {held and held.op_id}", reason="NameTaken")

    def _created(
        self, name: str, volume: str, spec: WorkspaceSpec, label: Label, spec_hash: str
    ) -> tuple[Mapping[str, Any], bool]:
        """And whether it was this call that made it: of many at once one does."""
        folder = self._inside.make(name, spec)
        host = self._api.create_host_config(
            network_mode="none",
            cap_drop=["ALL"],
            cap_add=list(OF_THE_INIT),
            security_opt=["no-new-privileges:true"],
            read_only=True,
            tmpfs={"/tmp": "size=256000000,mode=1777", "/run/user": "size=1m"},  # noqa: S108  inside
            restart_policy={"Name": ""},
            mem_limit=None if spec.limits.memory_mb is None else f"{spec.limits.memory_mb}m",
            memswap_limit=None if spec.limits.memory_mb is None else f"{spec.limits.memory_mb}m",
            pids_limit=None if spec.limits.processes is None else spec.limits.processes + INIT_PROCESSES,
            mounts=[
                docker.types.Mount(HOME, volume, type="volume", no_copy=True),
                docker.types.Mount(AT, str(folder), type="bind"),
            ],
            shm_size=64_000_000,
            log_config=docker.types.LogConfig(type="none"),
        )
        labels = {SPEC: spec_hash, VOLUME: volume, FOLDER: str(folder)}
        try:
            made = self._named(name, label, labels, host, spec.image)
        except BaseException:
            self._inside.remove(folder)
            raise
        if made is None:
            self._inside.remove(folder)
            return self._other_of(name), False
        return made, True

    def _other_of(self, name: str) -> Mapping[str, Any]:
        """The container that took the name first. The daemon gives a name away a moment before it shows whose it is."""
        end = daemon.docker_deadline(ANSWER_SECONDS)
        while (found := self._inspected(name)) is None:
            if time.monotonic() > end:
                raise DriverUnavailable(f"{name} came and went meanwhile")
            time.sleep(0.02)
        return found

    def place_placeholder(self, *, name: str, label: Label) -> VerbAnswer:
        with daemon_faults(f"holding the name {name}"):
            found = self._inspected(name)
            if found is None:
                host = self._api.create_host_config(network_mode="none", cap_drop=["ALL"])
                if self._named(name, label, {PLACEHOLDER: "1"}, host, None) is not None:
                    return VerbAnswer.DONE
                found = self._other_of(name)
            held = label_in(found["Config"]["Labels"], self._installation)
            is_ours = PLACEHOLDER in found["Config"]["Labels"] and held is not None and held.op_id == label.op_id
            return VerbAnswer.ALREADY if is_ours else VerbAnswer.IN_USE

    def remove_container(self, container_id: str, *, grace_seconds: float = 10.0) -> VerbAnswer:
        with daemon_faults(f"removing {container_id}"):
            found = self._inspected(container_id)
            if found is None or found["Id"] != container_id:
                return VerbAnswer.ABSENT
            labels = found["Config"]["Labels"]
            if found["State"]["Running"] and FOLDER in labels:
                self._inside.mark_stopping(Path(labels[FOLDER]))
                with contextlib.suppress(DriverUnavailable, DriverRefused):
                    self._client(Path(labels[FOLDER]), 2.0).shutdown(grace_seconds, seconds=2.0)
                    self._ends_within(container_id, grace_seconds + 1.0)
            return self._removed(container_id)

    def _ends_within(self, container_id: str, seconds: float) -> None:
        with contextlib.suppress(requests.RequestException, NotFound):
            self._api.wait(container_id, timeout=seconds, condition="not-running")

    def _removed(self, container_id: str) -> VerbAnswer:
        """Killed and removed; another that removes it at the same time is waited for."""
        folder = self._folder_or_none(container_id)
        end = daemon.docker_deadline(KILL_SECONDS)
        answer = VerbAnswer.ABSENT
        while True:
            try:
                self._api.remove_container(container_id, force=True)
                answer = VerbAnswer.DONE
                break
            except NotFound:
                break
            except APIError as fault:
                if fault.status_code != requests.codes.conflict or time.monotonic() > end:
                    raise
                time.sleep(0.05)
        if folder is not None:
            self._inside.remove(folder)
        return answer

    # What runs inside.

    def exec_start(self, container_id: str, request: ExecRequest) -> RunningExec:
        if not request.argv or any("\0" in word for word in request.argv):
            raise DriverRefused("argv names a program, and no word of it holds a zero byte", reason="BadArgv")
        return self._running(container_id).exec_start(request)

    def put_file(self, container_id: str, path: str, content: bytes) -> None:
        if not path or any(part in {"", ".", ".."} for part in path.split("/")) or "\0" in path:
            raise DriverRefused(f"{path!r} is no path inside the home", reason="PathRefused")
        self._running(container_id).put_file(path, content)

    def connect(self, container_id: str, port: int) -> socket.socket:
        return self._running(container_id).connect_port(port)

    # Beside.

    def _named(
        self, name: str, label: Label, more: Mapping[str, str], host: Any, image: str | None
    ) -> Mapping[str, Any] | None:
        """None: another has the name."""
        wanted = self._images.allowed(image)
        try:
            made = self._api.create_container(
                wanted,
                list(COMMAND),
                entrypoint=[],
                name=name,
                hostname="workspace",
                user="0:0",
                working_dir="/",
                labels={INSTALLATION: self._installation, **labels_of(label), **more},
                host_config=host,
                network_disabled=True,
            )
        except ImageNotFound as missing:
            with self._images.pulled(wanted):
                raise ImageMissing(str(missing)) from missing
        except APIError as fault:
            if fault.status_code == requests.codes.conflict:
                return None
            raise
        return cast("Mapping[str, Any]", self._api.inspect_container(made["Id"]))

    def _listed(self, one: Mapping[str, Any]) -> SeenContainer | None:
        if one["State"] != "running" and PLACEHOLDER not in one["Labels"]:
            found = self._inspected(one["Id"])  # how it ended stands in no list
            return None if found is None else self._seen(found)
        return self._seen_of(
            one["Id"],
            one["Names"][0].lstrip("/"),
            one["Labels"],
            running=one["State"] == "running",
            started_at=datetime.fromtimestamp(one["Created"], UTC),
        )

    def _seen(self, found: Mapping[str, Any]) -> SeenContainer:
        state = found["State"]
        running = bool(state["Running"])
        has_run = not state["StartedAt"].startswith("0001")
        return self._seen_of(
            found["Id"],
            found["Name"].lstrip("/"),
            found["Config"]["Labels"],
            running=running,
            started_at=_time(found["Created"]).replace(microsecond=0) if has_run else None,  # as a list has it
            ended_at=_time(state["FinishedAt"]) if has_run and not running else None,
            exit_code=int(state["ExitCode"]) if has_run and not running else None,
            out_of_memory=bool(state["OOMKilled"]) or cgroups.killed_for_memory(_groups(found["Id"])),
        )

    def _seen_of(
        self,
        container_id: str,
        name: str,
        labels: Mapping[str, str],
        *,
        running: bool,
        started_at: datetime | None,
        **ended: Any,
    ) -> SeenContainer:
        told = self._inside.state(Path(labels[FOLDER])) if FOLDER in labels else {}
        return SeenContainer(
            container_id=container_id,
            name=name,
            label=label_in(labels, self._installation),
            volume=labels.get(VOLUME),
            running=running,
            placeholder=PLACEHOLDER in labels,
            spec_hash=labels.get(SPEC),
            started_at=None if PLACEHOLDER in labels else started_at,
            restarts=told.get("restarts", 0),
            crashes_in_a_row=told.get("crashes_in_a_row", 0),
            command_exit_code=told.get("command_exit_code"),
            **ended,
        )

    def _inspected(self, name: str) -> Mapping[str, Any] | None:
        try:
            return cast("Mapping[str, Any]", self._api.inspect_container(name))
        except NotFound:
            return None

    def _labelled(self, volume: str, label: Label | None = None) -> None:
        seen = self.look_volume(volume)
        if seen is None or seen.label is None or (label and seen.label.workspace_id != label.workspace_id):
            raise DriverRefused(f"there is no volume {volume} of this workspace", reason="VolumeMissing")

    def _folder_or_none(self, container_id: str) -> Path | None:
        found = self._inspected(container_id)
        folder = None if found is None else found["Config"]["Labels"].get(FOLDER)
        return None if folder is None else Path(folder)

    def _folder_of(self, container_id: str) -> Path:
        with daemon_faults(f"looking at {container_id}"):
            folder = self._folder_or_none(container_id)
        if folder is None:
            raise DriverUnavailable(f"there is no container {container_id}", reason="ContainerGone")
        return folder

    def _running(self, container_id: str) -> InitClient:
        with daemon_faults(f"looking at {container_id}"):
            found = self._inspected(container_id)
        if found is None:
            raise DriverUnavailable(f"there is no container {container_id}", reason="ContainerGone")
        if not found["State"]["Running"] or FOLDER not in found["Config"]["Labels"]:
            raise DriverUnavailable(f"{found['Name']} does not run", reason="NotRunning")
        return self._client(Path(found["Config"]["Labels"][FOLDER]), ANSWER_SECONDS)

    def _client(self, folder: Path, seconds: float) -> InitClient:
        return self._inside.client(folder, answer_seconds=seconds)

    def _sentinel_name(self) -> str:
        return f"dpp-sentinel-{self._installation}"

    def _sentinel(self) -> str | None:
        try:
            found = self._api.inspect_volume(self._sentinel_name())
        except NotFound:
            return None
        token: str | None = (found["Labels"] or {}).get(TOKEN)
        return token

    @contextlib.contextmanager
    def _tool(self, volume: str, command: Sequence[str], **more: Any) -> Iterator[daemon.ToolContainer]:
        image = self._images.allowed(None)
        asked = {"image": image, "installation": self._installation, "volume": volume, "command": command, **more}
        with self._images.pulled(image), daemon.docker_tool(self._api, **asked) as tool:
            yield tool

    def _told(self, volume: str, command: Sequence[str], *, capabilities: Sequence[str]) -> bytes:
        with self._tool(volume, command, capabilities=capabilities) as tool:
            said = b"".join(tool.output())
            ended = tool.end()
            if ended.code != 0:
                raise daemon.fault_of_tar(f"{command[0]} in {volume}", ended)
            return said


def _groups(container_id: str) -> tuple[str, ...]:
    """Where the daemon's two drivers of control groups put a container; what is not there says nothing."""
    root = cgroups.ROOT
    return tuple(
        str(place)
        for parent in (root / "memory", root)
        for place in (parent / "docker" / container_id, parent / "system.slice" / f"docker-{container_id}.scope")
    )


class _Stream(io.RawIOBase):
    """Pieces as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""
        self.is_read = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                self.is_read = True
                return 0
            self._left = piece
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def _time(text: str) -> datetime:
    """Nanoseconds are more than Python reads."""
    whole, _, rest = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{rest[:6] or '0'}+00:00")
