"""An HTTP server that stands before a real one and, while told to, answers with an error of its own."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


class Scripted:
    """`status` None forwards; otherwise every request gets that status and `body`.

    `only` narrows it to one action, or to one method where requests name no action; `holding` to requests with these
    bytes in their path or body. `losing` lets a request arrive and be done, and cuts the connection for an answer.
    """

    def __init__(self, target: str) -> None:
        self.status: int | None = None
        self.body = b"{}"
        self.only: str | None = None
        self.holding = b""
        self.refused = 0
        self.lost = 0
        self._to_lose = 0
        self.actions: list[str] = []
        self._target = urlsplit(target)
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                script._answer(self)

            def do_GET(self) -> None:
                script._answer(self)

            def do_PUT(self) -> None:
                script._answer(self)

            def do_HEAD(self) -> None:
                script._answer(self)

            def do_DELETE(self) -> None:
                script._answer(self)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator["Scripted"]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    @contextmanager
    def answering(
        self, status: int, body: bytes = b"{}", *, only: str | None = None, holding: bytes = b""
    ) -> Iterator[None]:
        self.body, self.only, self.holding, self.status = body, only, holding, status
        try:
            yield
        finally:
            self.status = None

    @contextmanager
    def losing(self, times: int, *, only: str | None = None, holding: bytes = b"") -> Iterator[None]:
        """The answers to the first so many requests that are meant."""
        self.only, self.holding, self._to_lose, self.lost = only, holding, times, 0
        try:
            yield
        finally:
            self._to_lose = 0

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        sent = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        action = handler.headers.get("X-Amz-Target", "").rpartition(".")[2]
        self.actions.append(action)
        is_meant = self.only in (None, action, handler.command) and self.holding in handler.path.encode() + sent
        if self.status is not None and is_meant:
            self.refused += 1
            _write(handler, self.status, {"Content-Type": "application/x-amz-json-1.0"}, self.body)
            return
        is_lost = is_meant and self._to_lose > 0
        if is_lost:
            self._to_lose -= 1
            self.lost += 1
        far = http.client.HTTPConnection(str(self._target.hostname), self._target.port, timeout=30)
        try:
            far.request(handler.command, handler.path, body=sent, headers=dict(handler.headers.items()))
            answer = far.getresponse()
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in HOP}
            content = answer.read()
            if is_lost:
                handler.close_connection = True
                return
            size = int(answer.getheader("Content-Length") or 0) if handler.command == "HEAD" else len(content)
            _write(handler, answer.status, kept, content, size)
        except OSError:
            handler.close_connection = True
        finally:
            far.close()


def _write(
    handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes, size: int | None = None
) -> None:
    """`size` where that is not the length of the body: a HEAD answers the headers of a GET, and no body."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body) if size is None else size))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)
