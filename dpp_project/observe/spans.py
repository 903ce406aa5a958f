"""Spans for a collector of traces (DPP-85): off unless an OTLP endpoint is set, and then nothing of it is loaded.

A run is one trace, whichever process is at work on it, and nothing is carried along for that. Ids are derived from what
all of them know: the trace's from the run's trace id, which is on its row, and that of the span which sent its message
from the run's id. So a worker's span finds its parent also where the requeuer sent the message.

Callers decide nothing: a `traceparent` gives a request its trace and its parent, never whether it is sampled. A span
says what the arguments of these functions are, and the class of an exception. Inputs, results, keys, paths and messages
are not among them.
"""

import atexit
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from dpp_project.observe.span_ids import sending_span_of, trace_of
from dpp_project.process_env import ENV

if TYPE_CHECKING:
    from dpp_project.observe.span_maker import Answering, SpanMaker

STOP_SECONDS: Final = 2.0
"""A collector that is away keeps no process from its end."""
_NOTHING: Final[AbstractContextManager[Any]] = nullcontext()
_NOT_SAID: Final[AbstractContextManager[Callable[[int | None], None]]] = nullcontext(lambda _status: None)

_maker: "SpanMaker | None" = None


def start_span_export(service: str) -> None:
    """Once in a process. It is called `dpp-{service}`, unless OTEL_SERVICE_NAME names it."""
    global _maker  # noqa: PLW0603  one for the process, as its logging is
    if _maker is None and (ENV.OTEL_EXPORTER_OTLP_ENDPOINT or ENV.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT):
        from dpp_project.observe.span_maker import SpanMaker  # memory and time that only those pay who asked for it

        _maker = SpanMaker(f"dpp-{service}")
        atexit.register(stop_span_export)


def stop_span_export() -> None:
    """Hand over what is left, as far as the collector takes it in time."""
    global _maker
    made, _maker = _maker, None
    if made is not None:
        handing_over = threading.Thread(target=made.shut_down, name="last spans", daemon=True)
        handing_over.start()
        handing_over.join(STOP_SECONDS)


def answering_span(trace_id: str, parent: int) -> "Answering | None":
    """A request, from its first line to its answer; it has a parent where its caller named one."""
    return None if _maker is None else _maker.answering(trace_of(trace_id), parent)


def answering_span_here(opened: "Answering | None") -> AbstractContextManager[Any]:
    """What this thread does for the request is part of it."""
    return _NOTHING if opened is None else opened.here()


def within_span(name: str) -> AbstractContextManager[Any]:
    """A part of what this thread is at; nothing where that is not traced."""
    return _NOTHING if _maker is None else _maker.within(name)


def sending_span(run_id: UUID, trace_id: str | None) -> AbstractContextManager[Any]:
    """A run's first message into the queue."""
    if _maker is None:
        return _NOTHING
    return _maker.sending(str(run_id), trace_of(trace_id), span=sending_span_of(run_id))


def working_span(run_id: UUID, trace_id: str | None, *, tenant_id: str, pack: str) -> AbstractContextManager[Any]:
    """A worker's part of a run."""
    if _maker is None:
        return _NOTHING
    return _maker.working(
        str(run_id), trace_of(trace_id), parent=sending_span_of(run_id), tenant_id=tenant_id, pack=pack
    )


def finishing_span(run_id: UUID, trace_id: str | None, *, tenant_id: str, actor: str) -> AbstractContextManager[Any]:
    """The end of a run: its money moves and it is committed. Of who ends it only what she is: an operator, the owner,
    the worker, a loop of recovery.
    """
    if _maker is None:
        return _NOTHING
    return _maker.finishing(
        str(run_id),
        trace_of(trace_id),
        parent=sending_span_of(run_id),
        tenant_id=tenant_id,
        finisher=actor.partition(":")[0],
    )


def telling_span(payload: str, *, tenant_id: str) -> AbstractContextManager[Callable[[int | None], None]]:
    """An attempt to deliver this payload, in the trace of its run where it is of one. The answer's status is said."""
    return _NOT_SAID if _maker is None else _maker.telling(payload, tenant_id=tenant_id)
