"""A server on loopback that speaks the chat completions protocol as it is told to, reply by reply."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Act = Callable[[BaseHTTPRequestHandler, threading.Event], None]


def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in ({"content_type": "application/json", "content_length": str(len(body))} | headers).items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def says(content: str | None, *, tokens: tuple[Any, Any] | None = (100, 20), finish: str = "stop") -> Act:
    """A good reply, with what the engine counted."""
    document: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}],
    }
    if tokens is not None:
        document["usage"] = {
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
        }
    return lambda handler, _closing: _send(handler, 200, json.dumps(document).encode())


def answers(answer: str, *quotes: str, answered: bool = True, **values: Any) -> Act:
    return says(json.dumps({"answered": answered, "answer": answer, "quotes": quotes}), **values)


def refuses(status: int, said: str = "no", **headers: str) -> Act:
    body = json.dumps({"error": {"message": said}}).encode()
    return lambda handler, _closing: _send(handler, status, body, **headers)


def sends(body: bytes) -> Act:
    return lambda handler, _closing: _send(handler, 200, body)


def is_silent(_handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    closing.wait(60)


def drips(handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    """Each byte in time for any timeout of a single read."""
    handler.send_response(200)
    handler.send_header("content-length", "100000")
    handler.end_headers()
    while not closing.wait(0.05):
        try:
            handler.wfile.write(b" ")
            handler.wfile.flush()
        except OSError:
            return


def cuts(handler: BaseHTTPRequestHandler, _closing: threading.Event) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')


class Engine(ThreadingHTTPServer):
    """Acts in order, one for each request, the last again and again."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, acts: tuple[Act, ...]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.acts = acts
        self.closing = threading.Event()
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        engine = self.server
        assert isinstance(engine, Engine)
        body = self.rfile.read(int(self.headers["content-length"]))
        act = engine.acts[min(len(engine.asked), len(engine.acts) - 1)]
        engine.asked.append(json.loads(body))
        engine.keys.append(self.headers["authorization"])
        engine.paths.append(self.path)
        act(self, engine.closing)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's name
        """Silence."""


@contextmanager
def engine(*acts: Act) -> Iterator[Engine]:
    server = Engine(acts)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join(10)
