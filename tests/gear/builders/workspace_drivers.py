"""Drivers of workspaces for tests, each in a place of its own that is empty afterwards; and workspaces in them."""

import atexit
import contextlib
import functools
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from ops.workspaces.drivers.base import (
    Driver,
    ExecRequest,
    ExecResult,
    Label,
    RunningExec,
    SeenContainer,
    VerbAnswer,
    WorkspaceSpec,
)
from ops.workspaces.drivers.process import sandbox
from ops.workspaces.drivers.process.driver import Deadlines, ProcessDriver
from ops.workspaces.drivers.process.starting import InitTimes
from tests.gear.servers import dockerd
from tests.gear.servers.dockerd import DockerDaemon

if TYPE_CHECKING:
    from ops.workspaces.drivers.docker.driver import DockerDriver

AT_ONCE: Final = InitTimes(restart_seconds=0.02, restart_seconds_max=0.05)
EXEC_SECONDS: Final = 20.0


@contextlib.contextmanager
def process_driver(deadlines: Deadlines = Deadlines(), folder: Path | None = None) -> Iterator[ProcessDriver]:  # noqa: B008  frozen
    if (why := sandbox.why_not()) is not None:
        pytest.skip(why)
    root = Path(tempfile.mkdtemp(prefix="dpp-workspaces-", dir=folder))
    driver = ProcessDriver(root / "kept", deadlines=deadlines, times=AT_ONCE)
    try:
        yield driver
        leave_nothing(driver)
        assert [*(root / "kept" / "doomed").glob("*"), *(root / "kept" / "containers").glob("*")] == []
    finally:
        shutil.rmtree(root, ignore_errors=True)


@functools.cache
def _daemon() -> DockerDaemon:
    """One for all tests of a process; it ends with it."""
    return _kept.enter_context(dockerd.a_docker_daemon())


_kept = contextlib.ExitStack()
atexit.register(_kept.close)


@contextlib.contextmanager
def docker_driver(
    daemon: DockerDaemon | None = None, images: Sequence[str] = (dockerd.IMAGE,)
) -> "Iterator[DockerDriver]":
    if (why := dockerd.why_not()) is not None:
        pytest.skip(why)
    from ops.workspaces.drivers.docker.driver import DockerDriver  # 40 MB that other tests need not have

    daemon = daemon or _daemon()
    root = Path(tempfile.mkdtemp(prefix="dpp-workspaces-"))
    driver = DockerDriver(root, installation=root.name, images=images, base_url=daemon.address, times=AT_ONCE)
    try:
        yield driver
        leave_nothing(driver)
        assert [*(root / "run").glob("*")] == []
    finally:
        shutil.rmtree(root, ignore_errors=True)


DRIVERS: Final[dict[str, Callable[[], AbstractContextManager[Driver]]]] = {
    "process": process_driver,
    "docker": docker_driver,
}
"""Each keeps the one contract."""


def leave_nothing(driver: Driver) -> None:
    for container in driver.list().containers:
        driver.remove_container(container.container_id, grace_seconds=0)
    for volume in driver.list().volumes:
        if volume.label is not None:
            driver.delete_volume(volume.name)


@dataclass
class Inhabited:
    """A workspace that runs, and what a tenant does in it."""

    driver: Driver
    name: str
    volume: str
    label: Label
    container_id: str
    begun: list[RunningExec] = field(default_factory=list)

    def begin(self, *argv: str, stdin: bytes = b"", deadline_seconds: float = EXEC_SECONDS) -> RunningExec:
        request = ExecRequest(uuid.uuid4().hex, argv, deadline_seconds, stdin=stdin)
        self.begun.append(self.driver.exec_start(self.container_id, request))
        return self.begun[-1]

    def run(self, *argv: str, stdin: bytes = b"") -> ExecResult:
        result = self.begin(*argv, stdin=stdin).wait(EXEC_SECONDS)
        assert result is not None
        return result

    def python(self, script: str, *words: str) -> str:
        """What a script says that ends well."""
        result = self.run("/usr/bin/python3", "-I", "-S", "-c", script, *words)
        assert (result.exit_code, result.stderr) == (0, b""), result
        return result.stdout.decode()

    def shell(self, script: str) -> str:
        result = self.run("/bin/sh", "-ec", script)
        assert (result.exit_code, result.stderr) == (0, b""), result
        return result.stdout.decode()

    def seen(self) -> SeenContainer:
        found = self.driver.look_container(self.name)
        assert found is not None
        return found

    def remove(self, *, grace_seconds: float = 0) -> None:
        for running in self.begun:
            running.close()
        assert self.driver.remove_container(self.container_id, grace_seconds=grace_seconds) is VerbAnswer.DONE


@dataclass
class Tenancy:
    """Workspaces of one driver."""

    driver: Driver
    made: list[Inhabited] = field(default_factory=list)

    @staticmethod
    def label() -> Label:
        return Label(str(uuid.uuid4()), str(uuid.uuid4()), 1)

    def volume(self, label: Label) -> str:
        name = f"ws-{label.workspace_id}-home-{label.op_id[:8]}-{label.attempt}"
        assert self.driver.ensure_volume(name, label) is VerbAnswer.DONE
        return name

    def inhabited(
        self, spec: WorkspaceSpec = WorkspaceSpec(), *, label: Label | None = None, volume: str | None = None  # noqa: B008  frozen
    ) -> Inhabited:  # fmt: skip
        label = label or self.label()
        volume = volume or self.volume(label)
        name = f"ws-{label.workspace_id}"
        assert self.driver.start(name=name, volume=volume, spec=spec, label=label, spec_hash="1") is VerbAnswer.DONE
        seen = self.driver.look_container(name)
        assert seen is not None
        self.made.append(Inhabited(self.driver, name, volume, label, seen.container_id))
        return self.made[-1]
