"""A collector of traces: OTLP over HTTP as the protocol says it, and what it was sent."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class SpanSent:
    service: str
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent: str
    links: tuple[str, ...]
    """The traces that it is linked to."""
    facts: dict[str, Any]
    failed: bool


@dataclass
class Collector:
    url: str
    spans: list[SpanSent] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def of(self, trace_id: str) -> dict[str, SpanSent]:
        """The spans of one trace by name; the first of each."""
        return {span.name: span for span in reversed(self.spans) if span.trace_id == trace_id}


@contextmanager
def a_collector() -> Iterator[Collector]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    collector = _Handler.collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    collector: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        known = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
        if known:
            self.collector.bodies.append(body)
            self.collector.spans.extend(_read(body))
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Not on the tests' standard error."""


def _read(body: bytes) -> Iterator[SpanSent]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _facts(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield SpanSent(
                    service=service,
                    name=span.name,
                    kind=span.kind,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    links=tuple(link.trace_id.hex() for link in span.links),
                    facts=_facts(span.attributes),
                    failed=span.status.code == 2,
                )


def _facts(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
