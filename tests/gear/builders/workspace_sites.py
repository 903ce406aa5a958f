"""A server in a workspace, the proxy before it, and callers of both: well-behaved ones and others."""

import contextlib
import http.client
import json
import socket
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from dpp_project.http.client_address import ClientAddresses
from ops.workspaces import loops, services
from ops.workspaces.drivers.base import ExecRequest, RunningExec
from ops.workspaces.proxy import admission
from ops.workspaces.proxy.server import Bounds, ProxyServer
from tests.gear.builders.workspace_hosts import WorkspaceHost, a_workspace_host
from tests.gear.builders.workspace_rows import DRIVER
from tests.gear.waiting import wait_until

PORT: Final = 8080
CLOSED_PORT: Final = 8081
SECONDS: Final = 20.0
BOUNDS: Final = Bounds(head_seconds=1.0, idle_seconds=1.0)
SITE: Final = r"""
import json, socketserver, sys

written = {"bytes": 0, "left": 0}
ANSWERS = {
    "/garbage": b"nonsense\r\n\r\n",
    "/nothing": b"",
    "/switch": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
    "/two": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "/cut": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort",
    "/head": b"HTTP/1.1 200 OK\r\nx: " + b"x" * 70000 + b"\r\n\r\n",
    "/early": b"HTTP/1.1 403 No\r\ncontent-length: 2\r\n\r\nno",
    "/ones": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 200 + b"0\r\n\r\n",
    "/old": b"HTTP/1.0 200 OK\r\n\r\nto its end",
    "/much": b"HTTP/1.1 302 Found\r\nset-cookie: sessionid=theirs; path=/\r\nclear-site-data: *\r\n"
    b"strict-transport-security: max-age=1; includeSubDomains\r\nalt-svc: h2=x\r\nconnection: x-hop\r\nx-hop: 1\r\n"
    b"x-kept: 1\r\nlocation: /next?a=b\r\ncontent-length: 0\r\n\r\n",
}


def body_of(rfile, headers):
    names = {name.lower(): value for name, value in headers}
    if "content-length" in names:
        return rfile.read(int(names["content-length"]))
    body = b""
    while names.get("transfer-encoding") == "chunked":
        size = int(rfile.readline(), 16)
        body += rfile.read(size)
        rfile.readline()
        if size == 0:
            break
    return body


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        lines = []
        while line := self.rfile.readline().strip():
            lines.append(line.decode("latin-1"))
        method, target, _ = lines[0].split(" ")
        headers = [line.split(": ", 1) for line in lines[1:]]
        path = target.split("?")[0]
        if path in ANSWERS:
            self.wfile.write(ANSWERS[path])
        elif path in ("/silent", "/endless"):
            if path == "/endless":
                self.wfile.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nbegun\r\n")
            self.rfile.read()
            written["left"] += 1
        elif path == "/flood":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            try:
                while True:
                    self.connection.sendall(b"x" * 65536)
                    written["bytes"] += 65536
            except OSError:
                written["left"] += 1
        else:
            told = {"method": method, "target": target, "headers": headers, "state": dict(written)}
            told["body"] = body_of(self.rfile, headers).decode("latin-1") if path != "/state" else ""
            content = json.dumps(told).encode()
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(content) + content)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
    request_queue_size = 64


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@dataclass
class Answered:
    status: int
    headers: Mapping[str, str]
    content: bytes

    def document(self) -> Any:
        return json.loads(self.content)

    def inner_headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.document()["headers"]}


@dataclass
class WorkspaceSite:
    """`PORT` of the host's workspace is served by `SITE`."""

    host: WorkspaceHost
    server: ProxyServer
    port: int
    used: list[uuid.UUID] = field(default_factory=list)
    running: list[RunningExec] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f"/w/{self.host.workspace_id}/{PORT}"

    def ask(
        self, path: str = "/", *, method: str = "GET", place: str | None = None, body: Any = None, **headers: str
    ) -> Answered:
        """`path` is below the served port; header names are spelt with `_`."""
        caller = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        with contextlib.closing(caller):
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            where = (self.place if place is None else place) + path
            caller.request(method, where, body=body, headers=sent, encode_chunked=not isinstance(body, bytes | None))
            answer = caller.getresponse()
            return Answered(answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read())

    @contextlib.contextmanager
    def connected(self, sent: str | bytes = b"") -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS) as connection:
            connection.sendall(sent.encode("latin-1") if isinstance(sent, str) else sent)
            yield connection

    def say(self, sent: str | bytes) -> bytes:
        """Raw: all that comes back, to the end of the connection."""
        with self.connected(sent) as connection:
            return heard(connection)

    def state(self, **headers: str) -> dict[str, int]:
        found: dict[str, int] = self.ask("/state", **headers).document()["state"]
        return found

    def serve(self) -> None:
        seen = self.host.driver.look_container(self.host.name)
        assert seen is not None
        argv = ("/usr/bin/python3", "-I", "-S", "-c", SITE, str(PORT))
        self.running.append(self.host.driver.exec_start(seen.container_id, ExecRequest(uuid.uuid4().hex, argv, 600.0)))

        def listens() -> bool:
            with contextlib.suppress(Exception):
                self.host.driver.connect(seen.container_id, PORT).close()
                return True
            return False

        wait_until(listens, what="the server in the workspace")


def heard(connection: socket.socket) -> bytes:
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            content += piece
    return content


@contextlib.contextmanager
def a_workspace_site() -> Iterator[WorkspaceSite]:
    with a_workspace_host() as host:
        ports: list[int] = []
        ends = threading.Event()
        used: list[uuid.UUID] = []

        def note(workspace_id: uuid.UUID) -> None:
            loops._in_passing(services.touch_workspace, workspace_id)
            used.append(workspace_id)

        server = ProxyServer(
            host.driver,
            host="127.0.0.1",
            port=0,
            admit=partial(admission.admit_request, driver_id=DRIVER),
            used=note,
            addresses=ClientAddresses([]),
            listens=ports.append,
            bounds=BOUNDS,
        )
        thread = threading.Thread(target=server.run, args=(ends,))
        thread.start()
        site = WorkspaceSite(host, server, wait_until(lambda: ports, what="the proxy's port")[0], used)
        try:
            site.serve()
            yield site
        finally:
            ends.set()
            thread.join()
            for running in site.running:
                running.close()
