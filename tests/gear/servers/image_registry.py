"""A registry of container images that has one, and that may be away. A daemon on this machine speaks HTTP to it."""

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

NAME: Final = "dpp-workspace"
_OCI: Final = "application/vnd.oci.image"


class Registry:
    def __init__(self, layer: bytes) -> None:
        self.is_away = True
        self.asked = 0
        """How often, while it was away."""
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {},
                "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
            }
        ).encode()
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": f"{_OCI}.manifest.v1+json",
                "config": described(f"{_OCI}.config.v1+json", config),
                "layers": [described(f"{_OCI}.layer.v1.tar", layer)],
            }
        ).encode()
        self.blobs = {digest(one): one for one in (config, layer, self.manifest)}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def image(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}/{NAME}:pulled"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                kind, _, wanted = self.path.rpartition("/")
                if registry.is_away:
                    registry.asked += 1
                    self._say(503, b"{}", "application/json")
                elif self.path == "/v2/":
                    self._say(200, b"{}", "application/json")
                elif kind.endswith("/manifests"):
                    self._say(200, registry.manifest, f"{_OCI}.manifest.v1+json")
                elif wanted in registry.blobs:
                    self._say(200, registry.blobs[wanted], "application/octet-stream")
                else:
                    self._say(404, b"{}", "application/json")

            do_HEAD = do_GET  # noqa: N815  the standard library's

            def _say(self, status: int, content: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.send_header("docker-content-digest", digest(content))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def log_message(self, *_words: object) -> None:
                """Nobody reads it."""

        return Handler


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def described(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest(content), "size": len(content)}


@contextlib.contextmanager
def an_image_registry(layer: bytes) -> Iterator[Registry]:
    registry = Registry(layer)
    thread = threading.Thread(target=registry.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield registry
    finally:
        registry.server.shutdown()
        registry.server.server_close()
        thread.join()
