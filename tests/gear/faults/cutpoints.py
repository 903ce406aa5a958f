"""One action of the real code in a process of its own, forked warm, whose wire may be cut at any of its requests."""

import contextlib
import json
import os
import select
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection, connections

from budget.redis import connection as money_connection
from budget.redis import scripts
from dpp_project.aws import clients
from dpp_project.settings import ENV
from dpp_project.stores import redis
from runs.bucket import storage
from tests.gear.faults.interruption import disconnect
from tests.gear.faults.wire import Fault, Wire

PATIENCE_SECONDS = 60.0
BIRTHS = 3


@dataclass(frozen=True)
class Ended:
    """How the process went: what its action answered, or that it died, and the requests it had sent by then."""

    answer: Any
    killed: bool
    failed: str | None
    requests: list[str]
    struck: bool


def wire_of_the_services() -> Wire:
    aws, redis_url, database = (
        urlsplit(str(ENV.SQS_ENDPOINT_URL)),
        urlsplit(settings.REDIS_URL),
        connection.settings_dict,
    )
    return Wire(
        postgres=(str(database["HOST"]), int(database["PORT"])),
        redis=(str(redis_url.hostname), redis_url.port or 6379),
        aws=(str(aws.hostname), aws.port or 80),
    )


@dataclass(frozen=True)
class _Child:
    """A process, and our ends of its pipes."""

    pid: int
    ready: int
    go: int
    told: int

    def close(self) -> None:
        for end in (self.ready, self.go, self.told):
            os.close(end)


class Forge:
    """Makes the processes. What takes long to make, the clients of AWS, is made once and inherited."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._aws = f"http://127.0.0.1:{wire.ports['aws']}"
        self._s3 = clients.new_s3(self._aws)
        with patch.object(clients, "ENV", ENV.model_copy(update={"SQS_ENDPOINT_URL": self._aws})):
            self._sqs = clients.new_sqs()

    def run(self, action: Callable[[], Any], *, at: int | None = None, fault: Fault | None = None) -> Ended:
        """The action in a child, struck at its request number `at`. Raises if it hangs."""
        child = self._child(action)
        try:
            with self._wire.armed(pid=child.pid, at=at, fault=fault) as armed:
                os.write(child.go, b"g")
                content = _wait_for(child.told, child.pid)
            status = _reaped(child.pid)
        finally:
            child.close()
        said = json.loads(content) if content else {"answer": None, "failed": None}
        return Ended(said["answer"], os.WIFSIGNALED(status), said["failed"], armed.said, armed.struck)

    def _child(self, action: Callable[[], Any]) -> "_Child":
        """One that waits for its go. On a busy machine a connection may time out before: it has done nothing."""
        for _ in range(BIRTHS):
            child = self._born(action)
            if _wait_for(child.ready, child.pid, until=b"r") == b"r":
                return child
            said = _wait_for(child.told, child.pid)
            _reaped(child.pid)
            child.close()
        raise AssertionError(f"no process comes up behind the wire; the last has said {said!r}")

    def _born(self, action: Callable[[], Any]) -> "_Child":
        disconnect()  # nothing that is open here may be open there too
        ready, told, go = os.pipe(), os.pipe(), os.pipe()
        with warnings.catch_warnings():
            # Other threads here only carry bytes; they hold no lock that the child could need.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            self._be_the_child(action, ready=ready[1], go=go[0], told=told[1])
        for end in (ready[1], go[0], told[1]):
            os.close(end)
        return _Child(pid, ready=ready[0], go=go[1], told=told[0])

    def _be_the_child(self, action: Callable[[], Any], *, ready: int, go: int, told: int) -> None:
        said: dict[str, Any] = {"answer": None, "failed": None}
        try:
            self._reroute()
            os.write(ready, b"r")
            os.close(ready)
            os.read(go, 1)
            said["answer"] = action()
        except Exception as error:  # noqa: BLE001  a process logs what it cannot help, and lives
            said["failed"] = type(error).__name__
        finally:
            with contextlib.suppress(OSError):
                os.write(told, json.dumps(said).encode())
            os._exit(0)

    def _reroute(self) -> None:
        """From here on every address leads to the wire; connections are opened before the count begins."""
        connection.settings_dict |= {"HOST": "127.0.0.1", "PORT": self._wire.ports["postgres"]}
        settings.REDIS_URL = f"redis://127.0.0.1:{self._wire.ports['redis']}/0"
        storage.shared_run_storage().endpoint_url = self._aws
        clients._s3_by_address()[self._aws] = self._s3
        clients.sqs_client._made = self._sqs
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        connections.close_all()
        redis.redis_client().ping()
        money_connection.budget_client().ping()
        scripts.shared_scripts()


def _wait_for(pipe: int, pid: int, *, until: bytes | None = None) -> bytes:
    """What the child writes until it has written that, closes the pipe, or dies."""
    content, deadline = b"", time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if select.select([pipe], [], [], 1.0)[0]:
            some = os.read(pipe, 65_536)
            content += some
            if not some or content == until:
                return content
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError(f"the process hangs; it has said {content!r}")


def _reaped(pid: int) -> int:
    return os.waitpid(pid, 0)[1]


@pytest.fixture(scope="module")
def forge(django_db_setup: None) -> Iterator[Forge]:
    with wire_of_the_services() as wire:
        yield Forge(wire)
