"""Makes spans with OpenTelemetry's SDK and hands them to a collector in the background. Loaded by spans.py alone."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from dpp_project.observe import span_ids

CLIENT_ERROR, SERVER_ERROR = 400, 500

_wanted: ContextVar[tuple[int, int]] = ContextVar("dpp_wanted_ids", default=(0, 0))


class _DerivedIds(RandomIdGenerator):
    """Those that the next span is to have; random ones where it says none."""

    def generate_trace_id(self) -> int:
        return _wanted.get()[0] or super().generate_trace_id()

    def generate_span_id(self) -> int:
        return _wanted.get()[1] or super().generate_span_id()

    def is_trace_id_random(self) -> bool:
        return False  # callers may name their traces


class SpanMaker:
    """One for a process. Where to, how often and how many is read from OTEL_* by the SDK itself."""

    def __init__(self, service: str) -> None:
        resource = Resource.create({SERVICE_NAME: service}).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, id_generator=_DerivedIds(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("dpp")

    def shut_down(self) -> None:
        self._provider.shutdown()

    def answering(self, trace_id: int, parent: int) -> "Answering":
        return Answering(self._entered("request", SpanKind.SERVER, trace_id, parent=parent))

    def within(self, name: str) -> AbstractContextManager[Any]:
        if not trace.get_current_span().get_span_context().is_valid:
            return nullcontext()
        return _during(self._tracer.start_span(name))

    def sending(self, run_id: str, trace_id: int, *, span: int) -> AbstractContextManager[Any]:
        """In the run's own trace. A request that learned the run's trace id from its body, or that carries on what
        another began, is in another one, and is linked.
        """
        return self._of_run("run send", SpanKind.PRODUCER, trace_id, own=span, facts={"dpp.run_id": run_id})

    def finishing(
        self, run_id: str, trace_id: int, *, parent: int, tenant_id: str, finisher: str
    ) -> AbstractContextManager[Any]:
        """In the run's own trace, whichever process ends it; a cancel's request is in another one, and is linked."""
        facts = {"dpp.run_id": run_id, "dpp.tenant_id": tenant_id, "dpp.finisher": finisher}
        return self._of_run("run finish", SpanKind.INTERNAL, trace_id, parent=parent, facts=facts)

    def _of_run(
        self, name: str, kind: SpanKind, trace_id: int, *, facts: dict[str, str], parent: int = 0, own: int = 0
    ) -> AbstractContextManager[Any]:
        """Part of what this thread is at, where that is in the trace of the run; else below `parent`, and linked."""
        current = trace.get_current_span().get_span_context()
        links = []
        if current.is_valid and current.trace_id == trace_id:
            parent = current.span_id
        elif current.is_valid:
            links = [Link(current)]
        return _during(self._entered(name, kind, trace_id, parent=parent, own=own, facts=facts, links=links))

    def working(
        self, run_id: str, trace_id: int, *, parent: int, tenant_id: str, pack: str
    ) -> AbstractContextManager[Any]:
        facts = {"dpp.run_id": run_id, "dpp.tenant_id": tenant_id, "dpp.pack": pack}
        return _during(self._entered("run execute", SpanKind.CONSUMER, trace_id, parent=parent, facts=facts))

    @contextmanager
    def telling(self, payload: str, *, tenant_id: str) -> Iterator[Callable[[int | None], None]]:
        told = json.loads(payload)
        facts, trace_id, parent = {"dpp.tenant_id": tenant_id}, span_ids.trace_of(told.get("trace_id")), 0
        if trace_id and "run_id" in told:
            facts["dpp.run_id"], parent = told["run_id"], span_ids.sending_span_of(UUID(told["run_id"]))
        span = self._entered("webhook attempt", SpanKind.CLIENT, trace_id, parent=parent, facts=facts)
        with _during(span):
            yield partial(_set_http_status_of_span, span)

    def _entered(
        self,
        name: str,
        kind: SpanKind,
        trace_id: int,
        *,
        parent: int = 0,
        own: int = 0,
        facts: dict[str, str] | None = None,
        links: list[Link] | None = None,
    ) -> Span:
        """A span whose parent is not this thread's own work. Whether it is sampled goes by its trace alone."""
        around = Context()
        if trace_id and parent:
            chosen = self._provider.sampler.should_sample(None, trace_id, name).decision
            flags = TraceFlags(TraceFlags.SAMPLED if chosen is Decision.RECORD_AND_SAMPLE else TraceFlags.DEFAULT)
            far = SpanContext(trace_id, parent, is_remote=True, trace_flags=flags)
            around = trace.set_span_in_context(NonRecordingSpan(far), around)
        wanted = _wanted.set((trace_id, own))
        try:
            return self._tracer.start_span(name, around, kind, facts, links or ())
        finally:
            _wanted.reset(wanted)


@dataclass(frozen=True, slots=True)
class Answering:
    """A request's span, which several threads may be at work for, one after the other."""

    span: Span

    def here(self) -> AbstractContextManager[Any]:
        return _current(self.span)

    def end(self, *, method: str, route: str, status: int, tenant_id: str | None, trace_id: str) -> None:
        self.span.update_name(f"{method} {route}")
        self.span.set_attribute("http.request.method", method)
        self.span.set_attribute("http.route", route)
        self.span.set_attribute("http.response.status_code", status)
        self.span.set_attribute("dpp.trace_id", trace_id)
        if tenant_id is not None:
            self.span.set_attribute("dpp.tenant_id", tenant_id)
        if status >= SERVER_ERROR:
            self.span.set_status(Status(StatusCode.ERROR))
        self.span.end()


def _set_http_status_of_span(span: Span, status: int | None) -> None:
    if status is not None:
        span.set_attribute("http.response.status_code", status)
    if status is None or status >= CLIENT_ERROR:
        span.set_status(Status(StatusCode.ERROR))


@contextmanager
def _current(span: Span) -> Iterator[None]:
    token = otel_context.attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        otel_context.detach(token)


@contextmanager
def _during(span: Span) -> Iterator[None]:
    """Of an exception its class alone: a message may quote what a caller sent."""
    try:
        with _current(span):
            yield
    except BaseException as error:
        span.set_status(Status(StatusCode.ERROR, type(error).__name__))
        raise
    finally:
        span.end()
