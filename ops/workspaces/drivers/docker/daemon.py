"""The daemon: its faults in our words, its labels, and containers that do one thing to one volume.

Every container and volume of ours carries the installation's name, so that two installations may share a daemon.
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound
from docker.utils.socket import frames_iter

from ops.workspaces.drivers.base import (
    DriverCorrupt,
    DriverError,
    DriverNoSpace,
    DriverRefused,
    DriverUnavailable,
    Label,
)

ANSWER_SECONDS: Final = 20
TOOL_SECONDS: Final = 600.0
LOOK_SECONDS: Final = 0.2
REMOVED_SECONDS: Final = 10.0
ERRORS_KEPT: Final = 16_384
INSTALLATION: Final = "dpp.installation"
WORKSPACE: Final = "dpp.workspace"
OP: Final = "dpp.op"
ATTEMPT: Final = "dpp.attempt"
VOLUME_AT: Final = "/volume"
FULL: Final = ("no space left on device", "disk quota exceeded", "wrote only")


def labels_of(label: Label) -> dict[str, str]:
    return {WORKSPACE: label.workspace_id, OP: label.op_id, ATTEMPT: str(label.attempt)}


def label_in(labels: Mapping[str, str] | None, installation: str) -> Label | None:
    """None: not ours, whatever its name."""
    labels = labels or {}
    if labels.get(INSTALLATION) != installation:
        return None
    try:
        return Label(labels[WORKSPACE], labels[OP], int(labels[ATTEMPT]))
    except (KeyError, ValueError):
        return None


class ImageMissing(DriverUnavailable):
    """The daemon has to pull it first (images.py)."""

    reason = "ImageMissing"


@contextlib.contextmanager
def daemon_faults(what: str) -> Iterator[None]:
    """What is not caught before is the daemon's, and says nothing about a workspace, but for a full disk."""
    try:
        yield
    except ImageNotFound as fault:
        raise ImageMissing(f"{what}: {fault.explanation or fault}") from fault
    except APIError as fault:
        raise _driver_error_of_docker(f"{what}: {fault.explanation or fault}", fault.status_code) from fault
    except (requests.RequestException, DockerException, OSError) as fault:
        raise DriverUnavailable(f"{what}: the Docker daemon does not answer: {fault}") from fault


def _driver_error_of_docker(said: str, status: int | None) -> DriverError:
    if any(word in said.lower() for word in FULL):
        return DriverNoSpace(said)
    if status is not None and 400 <= status < 500 and status != requests.codes.conflict:
        return DriverRefused(said)
    return DriverUnavailable(said)


def connect_docker(base_url: str | None, timeout_seconds: int = ANSWER_SECONDS) -> docker.APIClient:
    """Nothing is asked before the first verb: a daemon that is away is no reason not to start."""
    with daemon_faults("reading its settings"):
        settings = docker.utils.kwargs_from_env() if base_url is None else {"base_url": base_url}
        return docker.APIClient(**settings, version=API_VERSION, timeout=timeout_seconds)


API_VERSION: Final = "1.41"
"""Of Docker 20.10; every later daemon speaks it."""


@dataclass(frozen=True, slots=True)
class ToolEnd:
    code: int
    errors: str


class ToolContainer:
    """A container that does one thing to one volume, without network. It ends when we do: its input closes, or its
    output has no reader; then the daemon removes it."""

    def __init__(
        self,
        api: docker.APIClient,
        *,
        image: str,
        installation: str,
        volume: str,
        command: Sequence[str],
        capabilities: Sequence[str] = (),
        read_only: bool = False,
        stdin: bool = False,
    ) -> None:
        self._api = api
        self._errors = bytearray()
        with daemon_faults(f"a tool for {volume}"):
            host = api.create_host_config(
                network_mode="none",
                cap_drop=["ALL"],
                cap_add=list(capabilities),
                security_opt=["no-new-privileges:true"],
                read_only=True,
                auto_remove=True,
                mounts=[docker.types.Mount(VOLUME_AT, volume, type="volume", read_only=read_only, no_copy=True)],
                log_config=docker.types.LogConfig(type="none"),
            )
            made = api.create_container(
                image,
                list(command),
                entrypoint=[],
                user="0:0",
                working_dir=VOLUME_AT,
                stdin_open=stdin,
                labels={INSTALLATION: installation, "dpp.tool": "1"},
                host_config=host,
                network_disabled=True,
            )
            self.container_id: str = made["Id"]
            self._waiting = threading.Thread(target=self._wait, daemon=True)
            self._code: int | None = None
            self._begin = threading.Event()
            self._attached: Any = None
            try:
                self._attached = api.attach_socket(
                    self.container_id, {"stdin": int(stdin), "stdout": 1, "stderr": 1, "stream": 1}
                )
                self._waiting.start()
                self._begin.wait(1.0)
                api.start(self.container_id)
            except BaseException:
                self.close()  # never started, it is removed by nobody else, and holds its volume
                raise

    def output(self) -> Iterator[bytes]:
        """What it writes, to its end; its errors are kept."""
        with daemon_faults("reading a tool's output"):
            for stream, piece in frames_iter(self._attached, tty=False):
                if stream == 1:
                    yield piece
                else:
                    self._errors += piece
                    del self._errors[:-ERRORS_KEPT]

    def give(self, pieces: Iterator[bytes]) -> None:
        """All of them are taken, also where it reads no more: what comes last says whether they were the right ones."""
        stream = getattr(self._attached, "_sock", self._attached)
        is_read = True
        for piece in pieces:  # what it raises is not the daemon's
            is_read = is_read and self._take(stream, piece)
        stream.settimeout(ANSWER_SECONDS)
        with contextlib.suppress(OSError):
            stream.shutdown(1)

    def _take(self, stream: Any, piece: bytes) -> bool:
        """Whether it still reads. The daemon tells no writer that it stopped: the tool's end does."""
        left = memoryview(piece)
        stream.settimeout(LOOK_SECONDS)
        while left:
            try:
                left = left[stream.send(left) :]
            except TimeoutError:
                if not self._waiting.is_alive():
                    return False
            except OSError:
                return False
        return True

    def end(self, *, seconds: float = TOOL_SECONDS) -> ToolEnd:
        self._waiting.join(seconds)
        if self._code is None:
            raise DriverUnavailable(f"a tool did not end: {self._said()}")
        return ToolEnd(self._code, self._said())

    def close(self) -> None:
        """Whatever it is at. Removed by the daemon, unless that was faster."""
        if self._attached is not None:
            with contextlib.suppress(OSError, DockerException, requests.RequestException):
                self._attached._response.close()  # noqa: SLF001  the socket first would fail the response's own end
        with contextlib.suppress(DockerException, requests.RequestException):
            self._api.remove_container(self.container_id, force=True)
        if self._waiting.ident is not None:
            self._waiting.join(REMOVED_SECONDS)  # until then its volume is in use

    def _wait(self) -> None:
        """Asked before it starts: once it is removed, nobody knows how it ended. Until then it uses its volume."""
        self._begin.set()
        with contextlib.suppress(DockerException, requests.RequestException):
            self._code = self._api.wait(self.container_id, timeout=TOOL_SECONDS, condition="removed")["StatusCode"]

    def _said(self) -> str:
        return bytes(self._errors).decode("utf-8", "replace").strip()


@contextlib.contextmanager
def docker_tool(api: docker.APIClient, **asked: Any) -> Iterator[ToolContainer]:
    made = ToolContainer(api, **asked)
    try:
        yield made
    finally:
        made.close()


def fault_of_tar(what: str, ended: ToolEnd) -> DriverError:
    said = f"{what}: {ended.errors}"
    if any(word in ended.errors.lower() for word in FULL):
        return DriverNoSpace(said)
    return DriverCorrupt(said) if ended.code == 2 else DriverUnavailable(f"{said} ({ended.code})")


def docker_deadline(seconds: float) -> float:
    return time.monotonic() + seconds
