"""Around every request: its trace id, its one log line, its metrics, and the net that catches foreign errors."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog
from django.core.exceptions import ValidationError
from django.db import DataError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from dpp_project import origins
from dpp_project.http import answers, metrics, problems
from dpp_project.http.handlers import NOT_FOUND_DETAIL, REASON_BY_STATUS, bad_request, for_browsers
from dpp_project.http.later import ON_A_LOOP, AnsweredLater
from dpp_project.http.problems import Problem
from dpp_project.observe import spans, tracing
from dpp_project.reasons import ReasonCode

if TYPE_CHECKING:
    from dpp_project.observe.span_maker import Answering

log = structlog.get_logger("dpp.request")

TRACED: Final = ("/v1/", "/api/", "/mcp")

LOGGED_PATH_LENGTH = 200
LOGGED_METHOD_LENGTH = 20
WITHOUT_ORIGIN = "/v1/runs"
"""A tenant's own work, of which the audit trail holds nothing but what is deleted: else it is not asked from where."""


OWN_PAGES_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Of pages for people: no inline script runs, and nothing comes from, goes to or is framed by another origin."""
CONSOLE_POLICY = OWN_PAGES_POLICY.replace("script-src 'self'", "script-src 'self' 'unsafe-eval'")
"""Alpine, which the console's pages are made with, evaluates what stands in its attributes."""


IN_ITS_OWN_FORM = "dpp_in_its_own_form"
"""Of a response whose errors have a form that another protocol prescribes."""


class RequestMiddleware:
    """Outermost, so that nothing leaves without a trace id, and no API error leaves as HTML."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        structlog.contextvars.clear_contextvars()
        trace_id = tracing.from_headers(request.headers) or tracing.make_trace_id()
        tracing.bind_trace_id(trace_id)
        opened = None
        if request.path.startswith(TRACED):
            opened = spans.answering_span(trace_id, tracing.parent_span(request.headers, trace_id))
        with spans.answering_span_here(opened):
            response = self._answer(request)
        trace_id = tracing.current_trace_id() or trace_id  # a submit's body may name another
        if isinstance(response, AnsweredLater):
            later = response

            def account(answer: HttpResponseBase) -> HttpResponseBase:
                waited = later.waited_seconds if later.asked_for else 0.0
                return self._finished(request, answer, trace_id, started, asked_to_wait=waited, opened=opened)

            response.accounted_by(account, begin=lambda: self._begin_later(trace_id))
            return response if ON_A_LOOP in request.META else response.finish_here()
        return self._finished(request, response, trace_id, started, opened=opened)

    def _begin_later(self, trace_id: str) -> None:
        """In another thread than the view's."""
        structlog.contextvars.clear_contextvars()
        tracing.bind_trace_id(trace_id)

    def _finished(
        self,
        request: HttpRequest,
        response: HttpResponseBase,
        trace_id: str,
        started: float,
        *,
        asked_to_wait: float = 0.0,
        opened: "Answering | None" = None,
    ) -> HttpResponseBase:
        response = _as_problem(request, response)
        response.headers["X-Trace-Id"] = tracing.current_trace_id() or trace_id
        promised = getattr(request, "dpp_response_headers", {})
        if answers.tells_costs(request):
            promised = answers.COSTS_UNKNOWN | promised
        for name, value in promised.items():
            response.headers[name] = value
        if not for_browsers(request):
            response.headers.setdefault("Cache-Control", "no-store")
        elif response.headers.get("Content-Type", "").startswith("text/html"):
            policy = CONSOLE_POLICY if request.path.startswith("/admin/") else OWN_PAGES_POLICY
            response.headers.setdefault("Content-Security-Policy", policy)
        self._account(request, response, started, asked_to_wait)
        if opened is not None:
            opened.end(
                method=metrics.method_label(request.method),
                route=_route(request),
                status=response.status_code,
                tenant_id=getattr(getattr(request, "dpp_principal", None), "tenant_id", None),
                trace_id=response.headers["X-Trace-Id"],
            )
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """A page's; the API answers its own exceptions before they come here.

        What a person enters is checked by forms; a value that no column takes stood in the address or a forged form.
        """
        if for_browsers(request) and isinstance(exception, DataError | ValidationError):
            return bad_request(request, exception)
        return None

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        if request.path.startswith(WITHOUT_ORIGIN) and request.method != "DELETE":
            return self.get_response(request)
        source = origins.CONSOLE if request.path.startswith("/admin/") else origins.API
        with origins.use_origin(source, request.META.get("REMOTE_ADDR", "")):
            return self.get_response(request)

    def _account(self, request: HttpRequest, response: HttpResponseBase, started: float, asked_to_wait: float) -> None:
        seconds = time.perf_counter() - started - asked_to_wait
        route = _route(request)
        metrics.REQUEST_SECONDS.labels(
            metrics.method_label(request.method), route, f"{response.status_code // 100}xx"
        ).observe(seconds)
        principal = getattr(request, "dpp_principal", None)
        log.info(
            "request",
            method=(request.method or "")[:LOGGED_METHOD_LENGTH],
            path=request.path[:LOGGED_PATH_LENGTH],
            route=route,
            status=response.status_code,
            ms=round(seconds * 1_000, 1),
            **({"waited_ms": round(asked_to_wait * 1_000, 1)} if asked_to_wait else {}),
            tenant_id=getattr(principal, "tenant_id", None),
            **getattr(request, "dpp_log_facts", {}),
        )


def _route(request: HttpRequest) -> str:
    return request.resolver_match.route if request.resolver_match else "unmatched"


def _as_problem(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """An error that some layer answered in its own form, put into ours; pages meant for browsers stay."""
    if response.status_code < 400 or for_browsers(request) or hasattr(response, IN_ITS_OWN_FORM):
        return response
    if response.headers.get("Content-Type", "").startswith(problems.CONTENT_TYPE):
        return response
    reason = REASON_BY_STATUS.get(response.status_code)
    if reason is None:
        reason = ReasonCode.INTERNAL_ERROR if response.status_code >= 500 else ReasonCode.MALFORMED_REQUEST
    detail = NOT_FOUND_DETAIL if reason is ReasonCode.NOT_FOUND else "The request was refused."
    answer: HttpResponse = problems.problem_response(request, Problem(reason, detail))
    if "Allow" in response.headers:
        answer.headers["Allow"] = response.headers["Allow"]
    return answer
