"""Around every request: its trace id, its one log line, its metrics, and the net that catches foreign errors."""

import time
from collections.abc import Callable

import structlog
from django.core.exceptions import ValidationError
from django.db import DataError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from dpp_project import origins
from dpp_project.http import answers, metrics, problems
from dpp_project.http.handlers import NOT_FOUND_DETAIL, REASON_BY_STATUS, bad_request, for_browsers
from dpp_project.http.problems import Problem
from dpp_project.observe import tracing
from dpp_project.reasons import ReasonCode

log = structlog.get_logger("dpp.request")

LOGGED_PATH_LENGTH = 200
LOGGED_METHOD_LENGTH = 20
WITHOUT_ORIGIN = "/v1/runs"
"""A tenant's own work, of which the audit trail holds nothing: from where it came is not asked."""


OWN_PAGES_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Of pages for people: no inline script runs, and nothing comes from, goes to or is framed by another origin."""
CONSOLE_POLICY = OWN_PAGES_POLICY.replace("script-src 'self'", "script-src 'self' 'unsafe-eval'")
"""Alpine, which the console's pages are made with, evaluates what stands in its attributes."""


class RequestMiddleware:
    """Outermost, so that nothing leaves without a trace id, and no API error leaves as HTML."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        structlog.contextvars.clear_contextvars()
        trace_id = tracing.from_headers(request.headers) or tracing.make()
        tracing.bind(trace_id)
        response = _as_problem(request, self._answer(request))
        response.headers["X-Trace-Id"] = tracing.current() or trace_id
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
        self._account(request, response, started)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """A page's; the API answers its own exceptions before they come here.

        What a person enters is checked by forms; a value that no column takes stood in the address or a forged form.
        """
        if for_browsers(request) and isinstance(exception, DataError | ValidationError):
            return bad_request(request, exception)
        return None

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        if request.path.startswith(WITHOUT_ORIGIN):
            return self.get_response(request)
        source = origins.CONSOLE if request.path.startswith("/admin/") else origins.API
        with origins.use(source, request.META.get("REMOTE_ADDR", "")):
            return self.get_response(request)

    def _account(self, request: HttpRequest, response: HttpResponseBase, started: float) -> None:
        seconds = time.perf_counter() - started
        route = request.resolver_match.route if request.resolver_match else "unmatched"
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
            tenant_id=getattr(principal, "tenant_id", None),
            **getattr(request, "dpp_log_facts", {}),
        )


def _as_problem(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """An error that some layer answered in its own form, put into ours; pages meant for browsers stay."""
    if response.status_code < 400 or for_browsers(request):
        return response
    if response.headers.get("Content-Type", "").startswith(problems.CONTENT_TYPE):
        return response
    reason = REASON_BY_STATUS.get(response.status_code)
    if reason is None:
        reason = ReasonCode.INTERNAL_ERROR if response.status_code >= 500 else ReasonCode.MALFORMED_REQUEST
    detail = NOT_FOUND_DETAIL if reason is ReasonCode.NOT_FOUND else "The request was refused."
    answer: HttpResponse = problems.response(request, Problem(reason, detail))
    if "Allow" in response.headers:
        answer.headers["Allow"] = response.headers["Allow"]
    return answer
