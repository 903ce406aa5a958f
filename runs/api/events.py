"""`GET /v1/runs/{id}/events`: a run's steps as server-sent events, each once, in order, from `run_history` (DPP-81).

The event's id is the version that the step made, so that a client that was cut off names the last one it had, and gets
what came after it: nothing is stored for it, nothing is missed and nothing comes twice. What the pack says of its
progress comes between them, without an id.
"""

import time
import uuid
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Annotated, Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, ConfigDict, Field
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from budget.money import format_usd
from dpp_project.http.bodies import read_query
from dpp_project.http.later import StreamedLater
from dpp_project.http.problems import FieldError, Problem
from dpp_project.reasons import ReasonCode
from dpp_project.waiting import metrics
from dpp_project.waiting.places import RETRY_AFTER_SECONDS, places
from dpp_project.waiting.until import WaitEnd, key_has_ended
from dpp_project.waiting.watcher import News, Waiter
from runs.api import openapi
from runs.api.metering import MeteredView
from runs.api.owned import owned_run, tell_costs_of_run
from runs.models import Run
from runs.progress import BEGINNING, RunProgress
from runs.states import MoneyState, Status
from runs.waiting import progress_watch, steps
from runs.waiting.steps import RunStep
from tenants import key_watch
from tenants.permissions import principal_of
from tenants.rate_limits import Bucket
from tenants.scopes import Scope

CONTENT_TYPE: Final = "text/event-stream"
PING_SECONDS: Final = 15.0
OPEN_SECONDS: Final = 600.0
RECONNECT_MS: Final = 2_000
"""As long as `Retry-After` says elsewhere."""
_WHAT: Final = "events"
_HEADERS: Final = {"X-Accel-Buffering": "no"}
"""nginx would keep the events until it has a buffer of them."""


class NoQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RunStepEvent(BaseModel):
    """The data of an event that is named for a status. The last three stand in the last event alone."""

    status: Status
    money_state: MoneyState
    at: datetime
    used: Annotated[str | None, Field(description="What was charged, in US dollars.", examples=["0.0500"])] = None
    used_usd_micros: Annotated[int | None, Field(examples=[50_000])] = None
    reason_code: Annotated[str | None, Field(description="Why it failed.", examples=["PACK_FAILED"])] = None


class EventStreamRenderer(BaseRenderer):
    """For the negotiation alone."""

    media_type = CONTENT_TYPE
    format = "events"


class RunEventsView(MeteredView):
    required_scopes: Final = Scope.RUNS_READ
    rate_bucket: Final = Bucket.POLL
    renderer_classes = [EventStreamRenderer]
    reads_query = frozenset({"GET"})

    @extend_schema(**openapi.event_stream_schema(RunStepEvent))
    def get(self, request: Request, run_id: str) -> HttpResponseBase:
        """The run's steps as server-sent events, as they happen, until it has ended or ten minutes are over.

        Each event's id is the run's version: reconnect with it as `Last-Event-ID`. After the last event a connection
        with its id is answered 204, which ends a browser's reconnecting.
        """
        read_query(request, NoQuery)
        after = _last_event_id(request)
        run = owned_run(request, run_id, self.money)
        tell_costs_of_run(request, run, self.money)
        known = steps.steps_to_the_end(run.run_id)
        if after > max(run.version, known[-1].version if known else 0):
            after = 0  # not of this run: all it has
        new = [step for step in known if step.version > after]
        if known and known[-1].ended and not new:
            return HttpResponse(status=204)
        if request.method == "HEAD":
            return HttpResponse(content_type=f"{CONTENT_TYPE}; charset=utf-8", headers=_HEADERS)
        key_id = principal_of(request).key_id
        response = StreamedLater(
            lambda: _run_event_stream(run, key_id, new, known), content_type=f"{CONTENT_TYPE}; charset=utf-8"
        )
        for name, value in _HEADERS.items():
            response.headers[name] = value
        if not (known and known[-1].ended) and not places().has_room(run.tenant_id):
            response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
        return response


def _last_event_id(request: Request) -> int:
    given = request.headers.get("Last-Event-ID", "").strip()
    if not given:
        return 0
    if not (given.isascii() and given.isdigit() and len(given) <= 18):
        raise Problem(
            ReasonCode.VALIDATION_FAILED,
            "The request has wrong fields; see errors.",
            errors=[FieldError("header.Last-Event-ID", "send the id of the last event of this run, or leave it out")],
        )
    return int(given)


async def _run_event_stream(
    run: Run, key_id: uuid.UUID, new: list[RunStep], known: list[RunStep]
) -> AsyncGenerator[bytes, None]:
    """Closed like one whose time is over where its key has ended: who connects again is refused."""
    yield f"retry: {RECONNECT_MS}\n\n".encode() + b"".join(map(_step_event, new))
    if known and known[-1].ended:
        return
    metrics.BEGUN.labels(_WHAT).inc()
    how = "left"
    try:
        with places().place(run.tenant_id) as has_place:
            if not has_place:
                how = "no place"
                return
            waiter, key = Waiter(), str(run.run_id)
            seen = known[-1].version if known else 0
            with (
                steps.run_steps_watcher().watching(waiter, key, seen=seen),
                progress_watch.progress_watcher().watching(waiter, key, seen=BEGINNING),
                key_watch.watching_key(waiter, key_id),
            ):
                until = time.monotonic() + OPEN_SECONDS
                while not waiter.stopping and (left := until - time.monotonic()) > 0:
                    came = await waiter.news(seconds=min(PING_SECONDS, left))
                    if key_has_ended(came):
                        how = WaitEnd.KEY_ENDED
                        return
                    yield b"".join(map(_run_event_of_news, came)) or b": ping\n\n"
                    if any(isinstance(news.what, RunStep) and news.what.ended for news in came):
                        how = "ended"
                        return
                how = "stopping" if waiter.stopping else "time over"
    finally:
        metrics.ENDED.labels(_WHAT, how).inc()


def _run_event_of_news(news: News) -> bytes:
    if isinstance(news.what, RunProgress):
        return _encoded_run_event("progress", news.what.model_dump_json(exclude_none=True))
    return _step_event(news.what)


def _step_event(step: RunStep) -> bytes:
    values: dict[str, object] = {"status": step.status, "money_state": step.money_state, "at": step.at}
    if step.ended:
        micros = step.cost_micros or 0
        values |= {"used": format_usd(micros), "used_usd_micros": micros, "reason_code": step.reason_code}
    data = RunStepEvent.model_validate(values).model_dump_json(exclude_unset=True)
    return _encoded_run_event(step.status, data, event_id=step.version)


def _encoded_run_event(name: str, data: str, *, event_id: int | None = None) -> bytes:
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: {name}\ndata: {data}\n\n".encode()
