"""A real API server on this test process's own services, and raw sockets to talk to it."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dpp_project import serve
from dpp_project.devstack import http, ports
from dpp_project.env import Environment
from tests.gear.servers import worker as gear
from tests.gear.servers.live_processes import database_url
from tests.gear.waiting import wait_until


@dataclass
class Api:
    process: "subprocess.Popen[bytes]"
    port: int
    log: Path

    def connect(self) -> "Client":
        return Client(socket.create_connection(("127.0.0.1", self.port), timeout=30))

    def ask(self, request: bytes) -> "Received":
        """One request on a connection of its own."""
        with self.connect() as client:
            client.send(request)
            return client.receive()

    def log_lines(self, event: str) -> list[dict[str, Any]]:
        text = self.log.read_text(encoding="utf-8", errors="replace")
        whole = text[: text.rfind("\n") + 1].splitlines()
        found = [json.loads(line) for line in whole if line.startswith("{")]
        return [line for line in found if line.get("event") == event]

    def workers(self) -> list[int]:
        """The server's processes that answer requests."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii").split()
        return [int(pid) for pid in found if b"granian" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def open_files(self) -> int:
        """Of the process that has the most."""
        return max(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in self.workers())

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)


@dataclass
class Received:
    """One answer, as it came."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str | None:
        for line in self.head.split(b"\r\n")[1:]:
            found, _, value = line.partition(b":")
            if found.decode().lower() == name.lower():
                return value.strip().decode("latin-1")
        return None


class Client:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self, *, without_body: bool = False) -> Received:
        """The next answer; 1xx are answers too. Raises ConnectionError where the server closes first."""
        while b"\r\n\r\n" not in self._unread:
            self._more()
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        found = Received(int(head[9:12]), head, b"")
        if without_body or found.status < 200 or found.status in (204, 304):
            return found
        if (length := found.header("content-length")) is not None:
            while len(self._unread) < int(length):
                self._more()
            found.body, self._unread = self._unread[: int(length)], self._unread[int(length) :]
        elif found.header("transfer-encoding") == "chunked":
            found.body = self._chunks()
        return found

    def _chunks(self) -> bytes:
        body = b""
        while True:
            while b"\r\n" not in self._unread:
                self._more()
            size, _, self._unread = self._unread.partition(b"\r\n")
            while len(self._unread) < int(size, 16) + 2:
                self._more()
            body, self._unread = body + self._unread[: int(size, 16)], self._unread[int(size, 16) + 2 :]
            if int(size, 16) == 0:
                return body

    def _more(self) -> None:
        data = self.socket.recv(65_536)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._unread += data

    def until_closed(self) -> bytes:
        """All that comes until the server closes."""
        found = self._unread
        while data := self.socket.recv(65_536):
            found += data
        return found

    def is_waiting(self) -> bool:
        """Nothing has come, and the server has not closed."""
        self.socket.setblocking(False)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        else:
            return False
        finally:
            self.socket.settimeout(30)


@contextmanager
def an_api(
    folder: Path,
    *,
    threads: int = 2,
    limits: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Api]:
    """Started as the product starts it, with one process, and with other limits (of HostLimits) where given."""
    application = [] if limits is None else ["tests.gear.servers.limited_api:application"]
    environ = {"GEAR_LIMITS": json.dumps(limits), **(environ or {})}

    def command_of(values: Environment) -> list[str]:
        command = serve.api_command(values)
        return [*command[:-1], *application] if application else command

    with _running(folder, command_of, threads, environ) as api:
        yield api


@contextmanager
def a_served_api(folder: Path, *, processes: int) -> Iterator[Api]:
    """By `dpp_project.serve`, which sets up what several processes share."""
    environ = {"DPP_API_WORKERS": str(processes), "DPP_METRICS_DIR": str(folder / "metrics")}
    with _running(folder, lambda _values: [sys.executable, "-m", "dpp_project.serve", "api"], 2, environ) as api:
        yield api


@contextmanager
def a_product_api(folder: Path, *, processes: int) -> Iterator[Api]:
    """By the product's own command and with its defaults, its counts in the folder of temporary files as well."""

    def command_of(_values: Environment) -> list[str]:
        return [sys.executable, "-m", "dpp_project.serve", "api"]

    environ = {"DPP_API_WORKERS": str(processes), "TMPDIR": str(folder)}
    with _running(folder, command_of, None, environ) as api:
        yield api


@contextmanager
def a_wsgi_api(folder: Path, *, threads: int = 2) -> Iterator[Api]:
    """The same Django under granian's WSGI server."""
    with _running(folder, _wsgi_command, threads, {}) as api:
        yield api


def _wsgi_command(values: Environment) -> list[str]:
    return [
        *(sys.executable, "-m", "granian", "--interface", "wsgi", "--http", "1", "--no-ws", "--log-level", "error"),
        *("--port", str(values.DPP_API_PORT), "--blocking-threads", str(values.DPP_API_THREADS)),
        *("--http1-buffer-size", str(serve.API_HEAD_BYTES)),
        *("--static-path-route", "/static", "--static-path-mount", serve.STATIC_FOLDER),
        "tests.gear.servers.wsgi_reference:application",
    ]


@contextmanager
def _running(
    folder: Path, command_of: Callable[[Environment], list[str]], threads: int | None, environ: Mapping[str, str]
) -> Iterator[Api]:
    (gear.ROOT / serve.STATIC_FOLDER).mkdir(exist_ok=True)  # granian insists; `make up` fills it
    port = ports.choose_port()
    changes = {
        "DATABASE_URL": database_url(),
        "DPP_SERVICE": "api",
        "DPP_API_PORT": str(port),
        "DPP_API_WORKERS": "1",
        "DPP_METRICS_DIR": "",
        **({} if threads is None else {"DPP_API_THREADS": str(threads), "DPP_DB_POOL_SIZE": str(threads)}),
    }
    whole = os.environ | changes | dict(environ)
    log = folder / f"api-{port}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command_of(Environment.model_validate(whole)),
            cwd=gear.ROOT,
            env=whole,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(
            lambda: http.url_answers(f"http://127.0.0.1:{port}/healthz") or process.poll() is not None,
            seconds=60,
            what="the API",
        )
        assert process.poll() is None, log.read_text(encoding="utf-8")
        yield Api(process, port, log)
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()
            process.wait()
