"""Starts a workspace: its init is held at a pipe until its pid is written down."""

import contextlib
import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from dpp_project import clock
from dpp_project.processes.identity import process_identity_of
from ops.workspaces.drivers.base import HOME, DriverUnavailable, Label, WorkspaceSpec
from ops.workspaces.drivers.init_client import InitClient
from ops.workspaces.drivers.process import cgroups, sandbox
from ops.workspaces.drivers.process.records import Containers, Record, new_id
from ops.workspaces.init import pid1

RING_BYTES: Final = 1_048_576
BACKLOG: Final = 64
_LAUNCH: Final = (
    'for group in $GROUPS_TO_JOIN; do echo $$ >"$group/cgroup.procs" || exit 1; done; unset GROUPS_TO_JOIN; "$@" &'
)
"""Bubblewrap becomes nobody's child of ours, in its groups from the first moment."""
MARK: Final = "DPP_WORKSPACES_OF"
"""In the environment of bubblewrap and of the init, with their driver's folder: by it a supervisor spares a workspace,
and finds each that is to end. One that killed bubblewrap alone would leave the rest.
"""
_ENVIRONMENT: Final = {"HOME": HOME, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "USER": "user"}


@dataclass(frozen=True, slots=True)
class InitTimes:
    """When a command of the workspace is started again."""

    crash_seconds: float = 10.0
    restart_seconds: float = 1.0
    restart_seconds_max: float = 60.0


@dataclass(frozen=True, slots=True)
class WantedContainer:
    name: str
    volume: str
    spec: WorkspaceSpec
    label: Label
    spec_hash: str


@dataclass(slots=True)
class Begun:
    record: Record
    config: IO[bytes]
    words: dict[str, Any]


class Starting:
    def __init__(self, root: Path, containers: Containers, times: InitTimes, *, seconds: float) -> None:
        self._root = root
        self._containers = containers
        self._times = times
        self._seconds = seconds

    def begin(self, home: Path, wanted: WantedContainer) -> Begun:
        """Started, and written down. The caller holds the locks of the container and of the volume."""
        name, spec = wanted.name, wanted.spec
        folder = self._containers.folder(name)
        folder.mkdir(mode=0o700, exist_ok=True)
        groups = cgroups.make_cgroups(cgroups.name_of(folder.parent, name), spec.limits)
        words = {
            "command": list(spec.command),
            "environment": {**_ENVIRONMENT, **spec.environment},
            "home": HOME,
            "rlimits": cgroups.rlimits_of_workspace(spec.limits, grouped=bool(groups)),
            **asdict(self._times),
        }
        with contextlib.ExitStack() as stack:
            config_read, config_write = os.pipe()
            config = stack.enter_context(os.fdopen(config_write, "wb"))
            pid = self._spawn(folder, home, groups, config_read)
            process = process_identity_of(pid)
            if process is None:
                raise DriverUnavailable(f"{name} ended at once: {_errors(folder)}", reason="StartFailed")
            record = Record(
                container_id=new_id(name),
                name=name,
                label=wanted.label,
                volume=wanted.volume,
                spec_hash=wanted.spec_hash,
                process=process,
                started_at=clock.now().isoformat(),
                cgroups=groups,
            )
            self._containers.write(record)
            stack.pop_all()
            return Begun(record, config, words)

    def _spawn(self, folder: Path, home: Path, groups: tuple[str, ...], config: int) -> int:
        """The pid of the init, which waits for its config."""
        with contextlib.ExitStack() as ours:
            ours.callback(os.close, config)
            ring = _opened_container_file(ours, folder / "ring", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            pid1.LogRing(ring, RING_BYTES).create()
            state = _opened_container_file(ours, folder / "state", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            ended = _opened_container_file(ours, folder / "ended", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
            errors = _opened_container_file(ours, folder / "errors", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            listener = ours.enter_context(_listening(folder))
            info_read, info_write = os.pipe()
            info = ours.enter_context(os.fdopen(info_read, "rb"))
            try:
                with sandbox.workspace_files(_init_text()) as files, sandbox.refused_calls() as calls:
                    inherited = (config, listener.fileno(), ring, state)
                    line = sandbox.workspace_line(
                        home,
                        mark=(MARK, str(self._root)),
                        files=files,
                        inherited=inherited,
                        calls=calls,
                        info=info_write,
                        status=ended,
                    )
                    self._launch(line, groups, (errors, info_read))
            finally:
                os.close(info_write)
            pid = _child_pid(info, self._seconds)
        if pid is None:
            raise DriverUnavailable(f"bubblewrap did not start: {_errors(folder)}", reason="StartFailed")
        return pid

    def _launch(self, line: sandbox.SandboxLine, groups: tuple[str, ...], others: tuple[int, int]) -> None:
        """With the reading end of its own words: where we died it would die of them, and leave the inside half-made."""
        errors, info_read = others
        done = subprocess.run(  # noqa: S603  our own command line
            ("/bin/sh", "-c", _LAUNCH, "sh", *line.arguments),
            pass_fds=(*line.descriptors, info_read),
            env={"PATH": os.defpath, MARK: str(self._root), "GROUPS_TO_JOIN": " ".join(groups)},
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
            check=False,
        )
        if done.returncode != 0:
            raise DriverUnavailable("its control groups cannot be joined", reason="StartFailed")

    def finish(self, begun: Begun) -> None:
        """Its config, and its first answer. An init that does not answer stays on record: it is seen, and removed."""
        folder = self._containers.folder(begun.record.name)
        try:
            with begun.config as output:
                output.write(json.dumps(begun.words).encode())
        except BrokenPipeError as fault:
            raise DriverUnavailable(f"the init ended at once: {_errors(folder)}", reason="StartFailed") from fault
        client = InitClient(lambda seconds: connect_control(folder, seconds), answer_seconds=self._seconds)
        try:
            client.ping(self._seconds)
        except DriverUnavailable as fault:
            raise DriverUnavailable(f"{fault}: {_errors(folder)}", reason="StartFailed") from fault


def connect_control(folder: Path, seconds: float) -> socket.socket:
    """By way of the folder's descriptor: a path of a socket is at most 107 bytes."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(seconds)
    try:
        with _folder(folder) as fd:
            stream.connect(f"/proc/self/fd/{fd}/control")
    except BaseException:
        stream.close()
        raise
    return stream


def _listening(folder: Path) -> socket.socket:
    (folder / "control").unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _folder(folder) as fd:
        listener.bind(f"/proc/self/fd/{fd}/control")
    listener.listen(BACKLOG)
    return listener


@contextlib.contextmanager
def _folder(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def _opened_container_file(stack: contextlib.ExitStack, path: Path, flags: int) -> int:
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, fd)
    return fd


def _child_pid(info: IO[bytes], seconds: float) -> int | None:
    """Bubblewrap writes it in two pieces and closes."""
    end = time.monotonic() + seconds
    os.set_blocking(info.fileno(), False)
    said = b""
    while (left := end - time.monotonic()) > 0:
        if select.select([info], [], [], left)[0]:
            piece = info.read1(4096)  # type: ignore[attr-defined]
            if not piece:
                break
            said += piece
    try:
        return int(json.loads(said)["child-pid"])
    except (ValueError, KeyError):
        return None


def _errors(folder: Path) -> str:
    try:
        return (folder / "errors").read_text(encoding="utf-8", errors="replace")[-2000:].strip()
    except OSError:
        return ""


@cache
def _init_text() -> str:
    return Path(pid1.__file__).read_text(encoding="utf-8")
