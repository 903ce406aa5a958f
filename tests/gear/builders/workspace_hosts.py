"""A host with one workspace that runs, and the server that API and workers ask."""

import contextlib
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ops.workspaces import naming
from ops.workspaces.drivers.base import Label, VerbAnswer, WorkspaceSpec
from ops.workspaces.drivers.process.driver import ProcessDriver
from ops.workspaces.remote.server import WorkspaceServer
from tests.gear.waiting import wait_until

COMMAND = ("/bin/sh", "-c", "echo it began; sleep 1000")


@dataclass
class WorkspaceHost:
    driver: ProcessDriver
    workspace_id: uuid.UUID
    volume: str
    address: str = ""
    used: list[uuid.UUID] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """Its address, each time."""

    @property
    def name(self) -> str:
        return naming.container_name(self.workspace_id)

    def start(self) -> None:
        label = Label(str(self.workspace_id), str(uuid.uuid4()), 1)
        spec = WorkspaceSpec(command=COMMAND)
        done = self.driver.start(name=self.name, volume=self.volume, spec=spec, label=label, spec_hash="1")
        assert done is VerbAnswer.DONE

    def stop(self) -> None:
        seen = self.driver.look_container(self.name)
        if seen is not None:
            self.driver.remove_container(seen.container_id, grace_seconds=0)


@contextlib.contextmanager
def a_workspace_host() -> Iterator[WorkspaceHost]:
    with tempfile.TemporaryDirectory(prefix="dpp-workspaces-") as folder:
        of = uuid.uuid4()
        volume = naming.volume_name(of, op_id=uuid.uuid4(), attempt=1)
        host = WorkspaceHost(ProcessDriver(Path(folder) / "kept"), of, volume)
        host.driver.ensure_volume(volume, Label(str(of), str(uuid.uuid4()), 1))
        host.start()
        try:
            with _served(host):
                yield host
        finally:
            host.stop()
            host.driver.delete_volume(volume)


@contextlib.contextmanager
def _served(host: WorkspaceHost) -> Iterator[None]:
    ends = threading.Event()
    tell: Callable[[str], None] = host.told.append
    serving = WorkspaceServer(
        host.driver, host="127.0.0.1", port=0, tell_address=tell, used=host.used.append, tell_seconds=0.1
    )
    thread = threading.Thread(target=serving.run, args=(ends,))
    thread.start()
    try:
        host.address = wait_until(lambda: host.told, what="the server's address")[0]
        yield
    finally:
        ends.set()
        thread.join()
